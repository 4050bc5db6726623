"""Operators that repeat their data along axes of length 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..capabilities import arrays as kinds
from ..capabilities.kinds import implements
from ..errors import ShapeError
from ..types import Array, DType, Shape, merge_dtypes, normalize_axis
from .attributes import attribute
from .operator import Operator, Reads, Run
from .registry import register
from .summation import sum_to

__all__ = ["BroadcastAxis", "BroadcastLike", "BroadcastTo"]


@implements(kinds.BROADCAST)
class _Broadcasting(Operator):
    """Base: the output is the first input, repeated; the gradient sums over the copies."""

    def backward_reads(self) -> Reads:
        return Reads()

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return (0,)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        run.xp.copyto(outputs[0], inputs[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        sum_to(run, out_grads[0], in_grads[0])


def _stretch(data: Shape, target: dict[int, int]) -> Shape:
    """Return the data's shape with some dimensions replaced; each must be 1 or equal before."""
    for axis, size in target.items():
        if data[axis] > 1 and size and data[axis] != size:
            raise ShapeError(
                f"axis {axis} of data {data} has size {data[axis]} and cannot be broadcast to "
                f"{size}; it must be 1"
            )
    return tuple(target.get(axis, dim) for axis, dim in enumerate(data))


@register("broadcast_axis", "broadcast_axes")
class BroadcastAxis(_Broadcasting):
    """Repeat the data along each of ``axis``, where it has length 1, to the length in ``size``."""

    is_linear: ClassVar[bool] = True

    axis: tuple[int, ...] = attribute(default=(), doc="axes to repeat")
    size: tuple[int, ...] = attribute(default=(), minimum=0, doc="their new lengths")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        if len(self.axis) != len(self.size):
            raise ShapeError(f"axis {self.axis} and size {self.size} differ in length")
        data = inputs[0]
        if data is None:
            return inputs, outputs
        axes = [normalize_axis(axis, len(data)) for axis in self.axis]
        for axis in axes:
            if data[axis] > 1:
                raise ShapeError(f"axis {axis} of data {data} must have size 1 to be broadcast")
        shape = _stretch(data, dict(zip(axes, self.size, strict=True)))
        return inputs, [self.expect("output", outputs[0], shape)]


@register("broadcast_to")
class BroadcastTo(_Broadcasting):
    """Broadcast the data to ``shape``, of as many axes; 0 in it keeps the data's dimension."""

    is_linear: ClassVar[bool] = True

    shape: Shape = attribute(default=(), minimum=0, doc="the new shape")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        if len(data) != len(self.shape):
            raise ShapeError(f"data {data} and shape {self.shape} differ in number of dimensions")
        shape = _stretch(data, {axis: size for axis, size in enumerate(self.shape) if size})
        return inputs, [self.expect("output", outputs[0], shape)]


@register("broadcast_like")
class BroadcastLike(_Broadcasting):
    """Repeat ``lhs`` to the shape of ``rhs``, of as many axes; or only along ``lhs_axes``, to the
    lengths of ``rhs_axes``. Only the shape of ``rhs`` is read."""

    lhs_axes: tuple[int, ...] | None = attribute(default=None, doc="axes to repeat; None for all")
    rhs_axes: tuple[int, ...] | None = attribute(
        default=None, doc="the right input's axes that give their new lengths"
    )

    def input_names(self) -> tuple[str, ...]:
        return ("lhs", "rhs")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        lhs, rhs = inputs
        if lhs is None or rhs is None:
            return inputs, outputs
        if self.lhs_axes is None or self.rhs_axes is None:
            if len(lhs) != len(rhs):
                raise ShapeError(f"lhs {lhs} and rhs {rhs} differ in number of dimensions")
            target = dict(enumerate(rhs))
        else:
            if len(self.lhs_axes) != len(self.rhs_axes) or not self.lhs_axes:
                raise ShapeError(
                    f"lhs_axes {self.lhs_axes} and rhs_axes {self.rhs_axes} must have one length, "
                    f"at least 1"
                )
            target = {
                normalize_axis(left, len(lhs)): rhs[normalize_axis(right, len(rhs))]
                for left, right in zip(self.lhs_axes, self.rhs_axes, strict=True)
            }
        return inputs, [self.expect("output", outputs[0], _stretch(lhs, target))]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        lhs = merge_dtypes(inputs[0], outputs[0])
        return [lhs, inputs[1]], [lhs]
