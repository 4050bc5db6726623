"""Half precision for operators that accumulate: they compute in float32 and store 16 bits. And the
error of operators that cannot compute whole numbers.

MXNet does the same on a GPU; NumPy's matrix product of float16 is too slow to use.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ..errors import TypeInferenceError
from ..types import Array, is_half
from .operator import Run

__all__ = ["unsupported_dtype", "wide_backward", "wide_forward"]

Forward: TypeAlias = Callable[[Any, Run, Sequence[Array], Sequence[Array]], None]
Backward: TypeAlias = Callable[
    [Any, Run, Sequence[Array], Sequence[Array], Sequence[Array], Sequence[Array | None]], None
]


def unsupported_dtype(error: Exception, what: str) -> TypeInferenceError | None:
    """Return the error to raise for what NumPy raised in an operator's ``forward`` or ``backward``
    if the operator does not compute numbers of its inputs' dtype; else None.

    Args:
        error: what was raised.
        what: names the operator or node, and dtypes if known.
    """
    # NumPy's own subclasses of TypeError mean that a ufunc has no loop for these dtypes; a plain
    # TypeError would be a mistake in the operator.
    if not isinstance(error, TypeError) or not type(error).__module__.startswith("numpy"):
        return None
    return TypeInferenceError(f"{what} cannot be computed; cast the inputs to float32")


def wide_forward(forward: Forward) -> Forward:
    """Wrap a ``forward`` so that it gets float32 copies of half-precision arrays; round its
    results."""

    @functools.wraps(forward)
    def widened(self: Any, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        if not _any_half(inputs, outputs):
            forward(self, run, inputs, outputs)
            return
        targets = [_wide_target(run, array) for array in outputs]
        forward(self, run, [_widen(run, array) for array in inputs], targets)
        _narrow(run, targets, outputs)

    return widened


def wide_backward(backward: Backward) -> Backward:
    """Wrap a ``backward`` so that it gets float32 copies of half-precision arrays; round its
    results."""

    @functools.wraps(backward)
    def widened(
        self: Any,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        if not _any_half(out_grads, inputs, outputs, in_grads):
            backward(self, run, out_grads, inputs, outputs, in_grads)
            return
        wide_grads = [_widen(run, array) for array in out_grads]
        wide_inputs = [_widen(run, array) for array in inputs]
        wide_outputs = [_widen(run, array) for array in outputs]
        targets = [_wide_target(run, array) for array in in_grads]
        backward(self, run, wide_grads, wide_inputs, wide_outputs, targets)
        _narrow(run, targets, in_grads)

    return widened


def _any_half(*groups: Sequence[Array | None]) -> bool:
    return any(x is not None and is_half(x.dtype) for group in groups for x in group)


def _widen(run: Run, array: Array | None) -> Array | None:
    if array is None or not is_half(array.dtype):
        return array
    wide = run.scratch(array.shape, "float32")
    run.xp.copyto(wide, array)
    return wide


def _wide_target(run: Run, array: Array | None) -> Array | None:
    if array is None or not is_half(array.dtype):
        return array
    return run.scratch(array.shape, "float32")


def _narrow(run: Run, wide: Sequence[Array | None], narrow: Sequence[Array | None]) -> None:
    for source, target in zip(wide, narrow, strict=True):
        if source is not None and source is not target:
            run.xp.copyto(target, source)
