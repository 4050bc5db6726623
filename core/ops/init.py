"""Operators without inputs that create arrays: constants and ranges."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..errors import AttributeValueError
from ..types import Array, DType, Shape, is_half, normalize_axis, shape_size
from .attributes import attribute
from .operator import Operator, Reads, Run
from .registry import register

__all__ = ["Arange", "ArangeLike", "Eye", "Full", "Linspace", "Ones", "Zeros"]

_FLOAT32 = np.dtype("float32")
_DTYPE = "the output's dtype"
_SHAPE = "the shape, with 0 or -1 for unknown dimensions; empty if entirely unknown"


class _Source(Operator):
    """Base of operators without inputs. The plan decides on which device they run, not ``ctx``."""

    ignored_attributes = frozenset({"ctx"})

    dtype: DType

    def input_names(self) -> tuple[str, ...]:
        return ()

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        return inputs, [self.expect_dtype("output", outputs[0], self.dtype)]

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)


class _Constant(_Source):
    """Base: an array filled with a number; dimensions of 0 are inferred from the operators that
    read it."""

    shape: Shape | None

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        shape = tuple(max(dim, 0) for dim in self.shape or ())
        return inputs, [self.expect("output", outputs[0], shape or None)]


@register("_zeros")
class Zeros(_Constant):
    """An array of zeros, of ``shape`` and ``dtype``."""

    shape: Shape = attribute(default=(), minimum=-1, doc=_SHAPE)
    dtype: DType = attribute(default=_FLOAT32, doc=_DTYPE)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        outputs[0].fill(0)


@register("_ones")
class Ones(_Constant):
    """An array of ones, of ``shape`` and ``dtype``."""

    shape: Shape = attribute(default=(), minimum=-1, doc=_SHAPE)
    dtype: DType = attribute(default=_FLOAT32, doc=_DTYPE)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        outputs[0].fill(1)


@register("_full", "_npi_full")
class Full(_Constant):
    """An array filled with ``value``, of ``shape`` and ``dtype``."""

    shape: Shape | None = attribute(default=None, minimum=-1, doc=_SHAPE)
    dtype: DType = attribute(default=_FLOAT32, doc=_DTYPE)
    value: float = attribute(doc="the number")

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        # By way of an array, whose conversion wraps numbers that integers of few bits lack.
        outputs[0].fill(np.array(self.value).astype(outputs[0].dtype)[()])


@register("_eye")
class Eye(_Source):
    """A matrix (N, M) of ``dtype`` with ones on a diagonal and zeros elsewhere."""

    N: int = attribute(minimum=1, doc="rows")
    M: int = attribute(default=0, minimum=0, doc="number of columns; 0 for as many as rows")
    k: int = attribute(default=0, doc="index of the diagonal; positive above the main one")
    dtype: DType = attribute(default=_FLOAT32, doc=_DTYPE)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        return inputs, [self.expect("output", outputs[0], (self.N, self.M or self.N))]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        rows, columns = outputs[0].shape
        run.xp.copyto(outputs[0], run.xp.eye(rows, columns, self.k), casting="unsafe")


def _write_range(run: Run, out: Array, start: float, step: float, repeat: int = 1) -> None:
    """Write start, start + step, ... into a vector, each number ``repeat`` times."""
    place = run.xp.arange(out.size) // repeat
    # Times a float32, integer positions would give float64.
    if isinstance(step, np.float32):
        place = place.astype("float32")
    run.xp.copyto(out, start + step * place, casting="unsafe")


def _in_dtype(dtype: DType, start: float, step: float) -> tuple[float, float]:
    """Return start and step, truncated for integer dtypes, as in NumPy. As in MXNet, each number is
    computed in the range's own dtype; half precision, where MXNet truncates, in float64."""
    if dtype.kind in "iu":
        return math.trunc(start), math.trunc(step)
    return (start, step) if is_half(dtype) else (dtype.type(start), dtype.type(step))


@register("_arange")
class Arange(_Source):
    """Equally spaced numbers from ``start`` to before ``stop``, each ``repeat`` times.

    Without ``stop``, numbers from 0 to before ``start``. With ``infer_range`` the length is
    inferred from the operators that read it.
    """

    start: float = attribute(doc="first number")
    stop: float | None = attribute(default=None, doc="end of the range, exclusive")
    step: float = attribute(default=1.0, doc="distance between consecutive numbers")
    repeat: int = attribute(default=1, minimum=1, doc="number of repetitions of each number")
    infer_range: bool = attribute(
        default=False, doc="infer the length from the operators that read the range"
    )
    dtype: DType = attribute(default=_FLOAT32, doc=_DTYPE)

    def __post_init__(self) -> None:
        if self.step == 0:
            raise AttributeValueError("step is 0; expected another number")
        if not self._is_open and self._count() < 1:
            start, stop = self._bounds()
            raise AttributeValueError(
                f"start {start}, stop {stop} and step {self.step} make an empty range"
            )

    @property
    def _is_open(self) -> bool:
        return self.infer_range and self.stop is None

    def _bounds(self) -> tuple[float, float]:
        if self.stop is None and not self.infer_range:
            return 0.0, self.start
        return self.start, self.start if self.stop is None else self.stop

    def _count(self) -> int:
        start, stop = self._bounds()
        return math.ceil((stop - start) / self.step)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        length = 0 if self._is_open else self._count() * self.repeat
        return inputs, [self.expect("output", outputs[0], (length,))]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        start, step = _in_dtype(outputs[0].dtype, self._bounds()[0], self.step)
        _write_range(run, outputs[0], start, step, self.repeat)


@register("_linspace", "_npi_linspace")
class Linspace(_Source):
    """``num`` equally spaced numbers of ``dtype`` from ``start`` to ``stop``: (num,)."""

    start: float = attribute(doc="first number")
    stop: float = attribute(doc="end of the range")
    num: int = attribute(default=50, minimum=1, doc="number of elements")
    endpoint: bool = attribute(default=True, doc="whether stop is included")
    dtype: DType = attribute(default=_FLOAT32, doc=_DTYPE)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        return inputs, [self.expect("output", outputs[0], (self.num,))]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        parts = max(self.num - int(self.endpoint), 1)
        _write_range(run, outputs[0], self.start, (self.stop - self.start) / parts)


@register("_contrib_arange_like", "_npx_arange_like")
class ArangeLike(Operator):
    """A range of data's dtype: as long as an axis of the data or, without one, in its shape."""

    ignored_attributes = frozenset({"ctx"})

    start: float = attribute(default=0.0, doc="first number")
    step: float = attribute(default=1.0, doc="distance between consecutive numbers")
    repeat: int = attribute(default=1, minimum=1, doc="number of repetitions of each number")
    axis: int | None = attribute(
        default=None, doc="the axis that gives the length; None for the data's shape"
    )

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        shape = data if self.axis is None else (data[normalize_axis(self.axis, len(data))],)
        return inputs, [self.expect("output", outputs[0], shape)]

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        flat = run.scratch((shape_size(outputs[0].shape),), outputs[0].dtype)
        start, step = _in_dtype(flat.dtype, self.start, self.step)
        _write_range(run, flat, start, step, self.repeat)
        run.xp.copyto(outputs[0], flat.reshape(outputs[0].shape))
