"""Operators that reorder the axes of their data, or the elements along axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..capabilities import arrays as kinds
from ..capabilities.kinds import implements
from ..errors import ShapeError
from ..types import Array, Shape, normalize_axis
from .attributes import attribute
from .operator import Operator, Reads, Run
from .registry import declares_attributes, register

__all__ = ["DepthToSpace", "Reverse", "SpaceToDepth", "SwapAxis", "Transpose"]


class _Rearranging(Operator):
    """Base: the output is a permutation of the data."""

    def view(self, data: Array) -> Array:
        """Return a view of the data in the output's order."""
        raise NotImplementedError

    def backward_reads(self) -> Reads:
        return Reads()

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        run.xp.copyto(outputs[0], self.view(inputs[0]))

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        run.xp.copyto(self.view(in_grads[0]), out_grads[0])


@implements(kinds.TRANSPOSE)
class _Permuting(_Rearranging):
    """Base: the axes of the output are those of the data in another order."""

    def permutation(self, rank: int) -> tuple[int, ...]:
        """Return the axis of the data for each axis of the output."""
        raise NotImplementedError

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data, output = inputs[0], outputs[0]
        known = data if data is not None else output
        if known is None:
            return inputs, outputs
        axes = self.permutation(len(known))
        if data is not None:
            output = self.expect("output", output, tuple(data[axis] for axis in axes))
        assert output is not None
        back = tuple(output[axes.index(axis)] for axis in range(len(axes)))
        return [self.expect("data", data, back)], [output]

    def view(self, data: Array) -> Array:
        return data.transpose(self.permutation(data.ndim))


@register("transpose")
class Transpose(_Permuting):
    """Reorder the axes; without ``axes``, reverse their order."""

    is_linear: ClassVar[bool] = True

    axes: tuple[int, ...] = attribute(default=(), doc="the data's axis for each of the output's")

    def permutation(self, rank: int) -> tuple[int, ...]:
        if not self.axes:
            return tuple(range(rank))[::-1]
        if sorted(self.axes) != list(range(rank)):
            raise ShapeError(
                f"axes {self.axes} are not a permutation of the {rank} axes of the data; "
                f"expected each of 0 to {rank - 1} once"
            )
        return self.axes


@register("SwapAxis", "swapaxes", "_npi_swapaxes")
class SwapAxis(_Permuting):
    """Exchange axes ``dim1`` and ``dim2``."""

    names_outputs: ClassVar[bool] = True

    is_linear: ClassVar[bool] = True
    monitors_data: ClassVar[bool] = True

    dim1: int = attribute(default=0, doc="one axis")
    dim2: int = attribute(default=0, doc="the other")

    def permutation(self, rank: int) -> tuple[int, ...]:
        axes = list(range(rank))
        first, second = normalize_axis(self.dim1, rank), normalize_axis(self.dim2, rank)
        axes[first], axes[second] = axes[second], axes[first]
        return tuple(axes)


@register("reverse", "flip")
class Reverse(_Rearranging):
    """Reverse the order of the elements along the given axes."""

    is_linear: ClassVar[bool] = True
    monitors_data: ClassVar[bool] = True

    axis: tuple[int, ...] = attribute(doc="axes to reverse")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        shapes = super().infer_shape(inputs, outputs)
        data = shapes[0][0]
        for axis in self.axis if data is not None else ():
            normalize_axis(axis, len(data or ()))
        return shapes

    def view(self, data: Array) -> Array:
        axes = {normalize_axis(axis, data.ndim) for axis in self.axis}
        return data[tuple(slice(None, None, -1 if i in axes else 1) for i in range(data.ndim))]


@declares_attributes
class _Blocks(Operator):
    """Base of operators that exchange channels and blocks of pixels of (n, c, h, w)."""

    block_size: int = attribute(minimum=1, doc="height and width of a block")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data, output = inputs[0], outputs[0]
        if data is not None:
            output = self.expect("output", output, self._resize(data, forward=True))
        if output is not None:
            data = self.expect("data", data, self._resize(output, forward=False))
        return [data], [output]

    def _resize(self, shape: Shape, forward: bool) -> Shape:
        raise NotImplementedError

    def _to_depth(self, shape: Shape) -> Shape:
        n, c, h, w = _four(shape)
        block = self.block_size
        if h % block or w % block:
            raise ShapeError(f"height and width of {shape} are not multiples of block_size {block}")
        return n, c * block * block, h // block, w // block

    def _to_space(self, shape: Shape) -> Shape:
        n, c, h, w = _four(shape)
        block = self.block_size
        if c % (block * block):
            raise ShapeError(
                f"the channels of {shape} are not a multiple of block_size squared, {block * block}"
            )
        return n, c // (block * block), h * block, w * block

    def backward_reads(self) -> Reads:
        return Reads()

    def _copy(self, run: Run, deep: Array, wide: Array, to_space: bool) -> None:
        """Copy between the layouts (n, b b c, h, w) and (n, c, h b, w b).

        The position in the block is the slower part of the channel: the mode DCR of ONNX.
        """
        n, c, h, w = wide.shape
        block = self.block_size
        h, w = h // block, w // block
        pixels = wide.reshape(n, c, h, block, w, block)
        channels = deep.reshape(n, block, block, c, h, w).transpose(0, 3, 4, 1, 5, 2)
        if to_space:
            run.xp.copyto(pixels, channels)
        else:
            run.xp.copyto(channels, pixels)


@register("depth_to_space")
class DepthToSpace(_Blocks):
    """Move channels into blocks of pixels: (n, b b c, h, w) becomes (n, c, h b, w b)."""

    monitors_data: ClassVar[bool] = True

    def _resize(self, shape: Shape, forward: bool) -> Shape:
        return self._to_space(shape) if forward else self._to_depth(shape)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self._copy(run, inputs[0], outputs[0], to_space=True)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        self._copy(run, in_grads[0], out_grads[0], to_space=False)


@register("space_to_depth")
class SpaceToDepth(_Blocks):
    """Move blocks of pixels into channels: (n, c, h b, w b) becomes (n, b b c, h, w)."""

    monitors_data: ClassVar[bool] = True

    def _resize(self, shape: Shape, forward: bool) -> Shape:
        return self._to_depth(shape) if forward else self._to_space(shape)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self._copy(run, outputs[0], inputs[0], to_space=False)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        self._copy(run, out_grads[0], in_grads[0], to_space=True)


def _four(shape: Shape) -> Shape:
    if len(shape) != 4:
        raise ShapeError(f"data has shape {shape}, expected 4 dimensions (n, c, h, w)")
    return shape
