"""Conversion between multi-dimensional and flat indices."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import AttributeValueError, ShapeError
from ..types import Array, Shape
from .attributes import attribute
from .operator import Operator, Reads, Run
from .registry import register

__all__ = ["RavelMultiIndex", "UnravelIndex"]


class _Indices(Operator):
    """Base. The first dimension of ``shape`` is not needed and may be -1."""

    shape: Shape

    def check_shape(self) -> None:
        """Raise AttributeValueError unless ``shape`` has dimensions, all known except the first."""
        if not self.shape or min(self.shape[1:], default=1) < 1:
            raise AttributeValueError(f"shape is {self.shape}; expected the dimensions of an array")

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)


@register("_ravel_multi_index", "ravel_multi_index")
class RavelMultiIndex(_Indices):
    """The flat index of each column of indices: (axes, n) gives (n,)."""

    shape: Shape = attribute((), doc="shape of the array that is indexed")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        self.check_shape()
        data = inputs[0]
        if data is None:
            return inputs, outputs
        if len(data) != 2 or data[0] not in (0, len(self.shape)):
            raise ShapeError(f"data has shape {data}; expected one row for each of {self.shape}")
        return [(len(self.shape), data[1])], [self.expect("output", outputs[0], data[1:])]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        positions = run.scratch(inputs[0].shape[1:], "int64")
        positions.fill(0)
        for index, size in zip(inputs[0].astype("int64"), self.shape, strict=True):
            positions *= size
            positions += index
        run.xp.copyto(outputs[0], positions, casting="unsafe")


@register("_unravel_index", "unravel_index")
class UnravelIndex(_Indices):
    """The multi-dimensional indices of flat indices: (...) gives (axes, ...)."""

    shape: Shape = attribute((), doc="shape of the array that is indexed")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        self.check_shape()
        data = inputs[0]
        if data is None:
            return inputs, outputs
        output = self.expect("output", outputs[0], (len(self.shape), *data))
        return [output[1:]], [output]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        rest = inputs[0].astype("int64")
        for axis in reversed(range(1, len(self.shape))):
            run.xp.copyto(outputs[0][axis], rest % self.shape[axis], casting="unsafe")
            rest = rest // self.shape[axis]
        run.xp.copyto(outputs[0][0], rest, casting="unsafe")
