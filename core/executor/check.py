"""``CORE_CHECK_KERNELS=1``: run every fast kernel together with its reference and compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ..compiler.ir import Program, Slots, Step
from ..compiler.primitives import Reorder
from ..errors import MXNetError
from ..kernels.kernel import KernelArrays, KernelResources, TensorSpec, reorder
from ..ops import Run
from ..types import Array, DType, is_floating

__all__ = ["KernelMismatch", "checked", "tolerance"]


_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_BYTES = (np.dtype("int8"), np.dtype("uint8"))
_LARGEST_BYTE = 255
_SMALLEST_SCALE = 1e-6
"""Deviations are fractions of at least this, so that rounding errors around 0 are no mismatch."""


class KernelMismatch(MXNetError):
    """A fast kernel and the operator's reference computed different numbers."""


def tolerance(dtype: DType) -> float:
    """Return the largest deviation allowed, as a fraction of the largest magnitude.

    Integers of 8 bits may differ by one, because a kernel may round halves the other way. The
    others leave room for sums in another order: thousands of roundings in float32.
    """
    if dtype in _BYTES:
        return 1 / _LARGEST_BYTE
    if not is_floating(dtype):
        return 0.0
    # By size in bytes; the two kinds of half precision share the tolerance of bfloat16, the
    # coarser one.
    return {2: 2e-2, 4: 2e-4, 8: 1e-9}[dtype.itemsize]


def checked(
    call: Callable[[], Any],
    step: Step,
    program: Program,
    arrays: KernelArrays,
    resources: KernelResources,
    run: Run,
) -> Callable[[], Any]:
    """Return a closure that runs a kernel and its reference, and raises if they differ.

    It compares visible outputs, gradients and updated auxiliary states. Operators that draw random
    numbers cannot be compared.

    Raises:
        KernelMismatch: when the closure runs; names kernel, node and tensor.
    """
    if isinstance(step.op, Reorder) or step.op.uses_random:
        return call
    return _Check(call, step, program, arrays, resources, run)


class _Check:
    def __init__(
        self,
        call: Callable[[], Any],
        step: Step,
        program: Program,
        arrays: KernelArrays,
        resources: KernelResources,
        run: Run,
    ) -> None:
        self._call = call
        self._step = step
        self._resources = resources
        # With memory of its own: taken from the plan's scratch, it would count as needed there.
        self._run = Run(run.xp, run.is_train, run.random, resources.allocate)
        self._inputs = self._tensors(program, step.inputs, arrays.inputs)
        self._outputs = self._tensors(program, step.outputs, arrays.outputs)
        self._out_grads = self._tensors(program, step.out_grads, arrays.out_grads)
        self._in_grads = self._tensors(program, step.in_grads, arrays.in_grads)
        self._reads_rounded = any(one is not None and one.spec.is_rounded for one in self._inputs)

    def __call__(self) -> None:
        # Copies, because the kernel may work in place and update auxiliary states.
        inputs = _values(self._inputs)
        if self._step.source is None:
            self._call()
            expected = _empty_like(self._outputs)
            self._step.op.forward(self._run, inputs, expected)
            visible = self._step.op.visible_outputs()
            self._compare("output", expected[:visible], self._outputs[:visible])
            self._fill_unwritten(expected)
        else:
            outputs, out_grads = _values(self._outputs), _values(self._out_grads)
            self._call()
            expected = _empty_like(self._in_grads)
            self._step.op.backward(self._run, out_grads, inputs, outputs, expected)
            self._compare("gradient of input", expected, self._in_grads)
        self._compare_updates(inputs)

    def _fill_unwritten(self, expected: Sequence[Array | None]) -> None:
        """Write outputs that the kernel leaves out but the reference's backward pass reads."""
        assert self._step.kernel is not None
        for index in self._step.kernel.unwritten_outputs:
            target, value = self._outputs[index], expected[index]
            if target is not None and value is not None:
                self._run.xp.copyto(target.array, value)

    def _tensors(
        self, program: Program, slots: Slots, arrays: Sequence[Array | None]
    ) -> list[_Tensor | None]:
        return [
            None if spec is None else _Tensor(spec, array, self._resources)
            for spec, array in zip(program.specs(slots), arrays, strict=True)
        ]

    def _compare_updates(self, expected: Sequence[Array | None]) -> None:
        for position, slot in enumerate(self._step.inputs):
            if slot in self._step.updates:
                span = slice(position, position + 1)
                self._compare("auxiliary state", expected[span], self._inputs[span])

    def _compare(
        self, what: str, expected: Sequence[Array | None], got: Sequence[_Tensor | None]
    ) -> None:
        for position, (wanted, tensor) in enumerate(zip(expected, got, strict=True)):
            if wanted is None or tensor is None:
                continue
            deviation = _deviation(self._run.xp, wanted, tensor.value())
            assert self._step.kernel is not None
            is_rounded = tensor.spec.is_rounded or self._reads_rounded
            allowed = tolerance(_BFLOAT16 if is_rounded else wanted.dtype)
            if not deviation <= allowed:  # NaN, too, is a mismatch
                raise KernelMismatch(
                    f"kernel {self._step.kernel.name} of {self._step}: {what} {position} deviates "
                    f"from the reference by {deviation:.3g} of its largest magnitude, at most "
                    f"{allowed:.3g} is allowed; run without CORE_CHECK_KERNELS to "
                    "go on with the kernel, and report it"
                )


class _Tensor:
    """An operand, read as a copy in plain layout."""

    def __init__(self, spec: TensorSpec, array: Array, resources: KernelResources) -> None:
        self.spec = spec
        self.array = array
        self._resources = resources
        self._to_plain: Callable[[], None] | None = None
        if spec.layout is not None:
            plain = TensorSpec(spec.shape, spec.dtype)
            self.array = resources.allocate(spec.shape, spec.dtype)
            self._to_plain = reorder(spec, plain).bind(
                KernelArrays((array,), (self.array,)), resources
            )

    def empty(self) -> Array:
        return self._resources.allocate(self.spec.shape, self.spec.dtype)

    def value(self) -> Array:
        if self._to_plain is not None:
            self._to_plain()
        return self.array.copy()


def _values(tensors: Sequence[_Tensor | None]) -> list[Array | None]:
    return [None if tensor is None else tensor.value() for tensor in tensors]


def _empty_like(tensors: Sequence[_Tensor | None]) -> list[Array | None]:
    return [None if tensor is None else tensor.empty() for tensor in tensors]


def _deviation(xp: Any, expected: Array, got: Array) -> float:
    if expected.size == 0:
        return 0.0
    if expected.dtype in _BYTES:
        difference = xp.abs(expected.astype("int32") - got.astype("int32"))
        return float(xp.max(difference)) / _LARGEST_BYTE
    if not is_floating(expected.dtype):
        return float(xp.any(expected != got))
    wide = np.dtype("float64")
    difference = xp.abs(expected.astype(wide) - got.astype(wide))
    both_nan = xp.isnan(expected) & xp.isnan(got)
    difference = xp.where(both_nan | (expected == got), 0.0, difference)
    largest = float(xp.max(xp.abs(xp.where(xp.isfinite(expected), expected, 0))))
    return float(xp.max(difference)) / max(largest, _SMALLEST_SCALE)
