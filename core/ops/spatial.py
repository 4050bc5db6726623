"""Sampling of images at grids of points (Jaderberg et al., "Spatial Transformer Networks", 2015).

A grid (batch, 2, height, width) holds for each place of the output the point to sample in the
image: x, then y, from -1 at the first column or row to 1 at the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..capabilities import sampling as kinds
from ..capabilities.kinds import implements
from ..errors import AttributeValueError
from ..types import Array, DType, Shape
from .attributes import attribute
from .interpolation import Neighbor, add_to_neighbors, neighbors
from .operator import Operator, Reads, Run
from .precision import wide_backward, wide_forward
from .registry import register

__all__ = ["BilinearSampler", "GridGenerator", "SpatialTransformer"]


class _Reading:
    """Samples a batch of images at the points of a grid."""

    def __init__(self, xp: Any, shape: Shape, grid: Array) -> None:
        """Prepare for images of this shape."""
        height, width = shape[2:]
        self._xp, self._shape = xp, shape
        self._scale = ((width - 1) / 2, (height - 1) / 2)
        flat = grid.reshape(len(grid), 2, -1)
        x, y = ((flat[:, i] + 1) * self._scale[i] for i in range(2))
        self._neighbors = neighbors(xp, y, x, height, width)

    def _index(self, near: Neighbor) -> tuple[Array, Array, Array]:
        batch, channels = self._shape[:2]
        xp = self._xp
        return xp.arange(batch)[:, None, None], xp.arange(channels)[:, None], near.position[:, None]

    def read(self, data: Array, out: Array) -> None:
        """Write the samples, (batch, channels, height, width)."""
        flat = data.reshape(*self._shape[:2], -1)
        value = sum(flat[self._index(near)] * near.weight[:, None] for near in self._neighbors)
        out[...] = value.reshape(out.shape)

    def spread(self, grad: Array, data_grad: Array) -> None:
        """Write the gradient of the images."""
        flat_grad = grad.reshape(*grad.shape[:2], -1)
        target = self._xp.zeros((*self._shape[:2], self._shape[2] * self._shape[3]), grad.dtype)
        for near in self._neighbors:
            add_to_neighbors(self._xp, target, near, flat_grad)
        data_grad[...] = target.reshape(self._shape)

    def grid_gradient(self, grad: Array, data: Array) -> Array:
        """Return the gradient of the grid, (batch, 2, points)."""
        flat = data.reshape(*self._shape[:2], -1)
        flat_grad = grad.reshape(*grad.shape[:2], -1)
        across: Any = 0
        down: Any = 0
        for near in self._neighbors:
            pull = (flat[self._index(near)] * flat_grad).sum(axis=1)
            across, down = across + pull * near.across, down + pull * near.down
        found: Array = self._xp.stack((across * self._scale[0], down * self._scale[1]), axis=1)
        return found


def _affine_points(xp: Any, shape: Shape, dtype: DType) -> Array:
    """Return x, y and 1 for every position of a grid, (3, height · width)."""
    height, width = shape
    points = xp.ones((3, height, width), dtype=dtype)
    points[0] = -1 + xp.arange(width, dtype=dtype) * dtype.type(2 / (width - 1) if width > 1 else 0)
    points[1] = (
        -1 + xp.arange(height, dtype=dtype) * dtype.type(2 / (height - 1) if height > 1 else 0)
    )[:, None]
    flat: Array = points.reshape(3, -1)
    return flat


@register("GridGenerator")
class GridGenerator(Operator):
    """The sampling grid (batch, 2, height, width) of a transformation.

    ``affine``: data (batch, 6) are 2 by 3 matrices from (x, y, 1) in the output to a point in the
    image; the grid has ``target_shape``. ``warp``: data (batch, 2, height, width) is the
    displacement of each position, in elements.
    """

    names_outputs: ClassVar[bool] = True

    transform_type: str = attribute(choices=("affine", "warp"), doc="the kind of transformation")
    target_shape: Shape = attribute((0, 0), minimum=0, doc="height and width, for affine")

    def __post_init__(self) -> None:
        if self.transform_type == "affine":
            check_target_shape(self.target_shape)

    def stored_outputs(self) -> int:
        """MXNet has a hidden output: the coordinates of the output's positions."""
        return 2

    def backward_reads(self) -> Reads:
        return Reads()

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        if self.transform_type == "warp":
            data = self.expect("data", inputs[0], outputs[0])
            data = self.expect("data", data, (0, 2, 0, 0))
            return [data], [data]
        data = self.expect("data", inputs[0], (0, 6))
        assert data is not None
        output = self.expect("output", outputs[0], (data[0], 2, *self.target_shape))
        assert output is not None
        return [(output[0], 6)], [output]

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp, data, out = run.xp, inputs[0], outputs[0]
        if self.transform_type == "affine":
            points = _affine_points(xp, self.target_shape, data.dtype)
            out[...] = (data.reshape(-1, 3) @ points).reshape(out.shape)
            return
        height, width = data.shape[2:]
        out[:, 0] = (data[:, 0] + xp.arange(width, dtype=data.dtype)) / ((width - 1) / 2) - 1
        rows = xp.arange(height, dtype=data.dtype)[:, None]
        out[:, 1] = (data[:, 1] + rows) / ((height - 1) / 2) - 1

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        grad, data_grad = out_grads[0], in_grads[0]
        assert data_grad is not None
        height, width = grad.shape[2:]
        if self.transform_type == "affine":
            points = _affine_points(run.xp, grad.shape[2:], grad.dtype)
            data_grad[...] = (grad.reshape(-1, points.shape[1]) @ points.T).reshape(-1, 6)
            return
        data_grad[:, 0] = grad[:, 0] / ((width - 1) / 2)
        data_grad[:, 1] = grad[:, 1] / ((height - 1) / 2)


def check_target_shape(target_shape: Shape) -> None:
    """Raise AttributeValueError unless it is height and width."""
    if len(target_shape) != 2 or min(target_shape) < 1:
        raise AttributeValueError(f"target_shape is {target_shape}; expected height and width")


@register("BilinearSampler")
@implements(kinds.BILINEAR_SAMPLER)
class BilinearSampler(Operator):
    """Images (batch, channels, height, width) sampled at a grid, with zeros outside of the
    images."""

    names_outputs: ClassVar[bool] = True

    ignored_attributes: ClassVar[frozenset[str]] = frozenset({"cudnn_off"})

    def input_names(self) -> tuple[str, ...]:
        return ("data", "grid")

    def stored_outputs(self) -> int:
        """MXNet has a hidden output: a workspace of cuDNN."""
        return 2

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0, 1))

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = self.expect("data", inputs[0], (0, 0, 0, 0))
        grid = self.expect("grid", inputs[1], (data[0], 2, 0, 0))
        output = self.expect("output", outputs[0], (grid[0], data[1], *grid[2:]))
        batch = output[0]
        return [(batch, output[1], *data[2:]), (batch, 2, *output[2:])], [output]

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data, grid = inputs
        _Reading(run.xp, data.shape, grid).read(data, outputs[0])

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        data, grid = inputs
        reading = _Reading(run.xp, data.shape, grid)
        if in_grads[0] is not None:
            reading.spread(out_grads[0], in_grads[0])
        if in_grads[1] is not None:
            in_grads[1][...] = reading.grid_gradient(out_grads[0], data).reshape(grid.shape)


@register("SpatialTransformer")
@implements(kinds.SPATIAL_TRANSFORMER)
class SpatialTransformer(Operator):
    """Affine transformations of images (batch, channels, height, width).

    ``loc`` (batch, 6) are 2 by 3 matrices from (x, y, 1) in the output to a point in the image.
    Outside of the images everything is 0.
    """

    names_outputs: ClassVar[bool] = True

    ignored_attributes: ClassVar[frozenset[str]] = frozenset({"cudnn_off"})

    target_shape: Shape = attribute((0, 0), minimum=0, doc="height and width of the output")
    transform_type: str = attribute(choices=("affine",), doc="the kind of transformation")
    sampler_type: str = attribute(choices=("bilinear",), doc="the kind of interpolation")

    def input_names(self) -> tuple[str, ...]:
        return ("data", "loc")

    def stored_outputs(self) -> int:
        """MXNet has hidden outputs: the coordinates of positions in the output and in the image."""
        return 3

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0, 1))

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        check_target_shape(self.target_shape)
        data = self.expect("data", inputs[0], (0, 0, 0, 0))
        output = self.expect("output", outputs[0], (*data[:2], *self.target_shape))
        loc = self.expect("loc", inputs[1], (output[0], 6))
        data = (loc[0], output[1], *data[2:])
        return [data, loc], [(*data[:2], *self.target_shape)]

    def grid(self, xp: Any, loc: Array) -> Array:
        """Return the point to sample for each position of the output, (batch, 2, points)."""
        points = _affine_points(xp, self.target_shape, loc.dtype)
        found: Array = (loc.reshape(-1, 3) @ points).reshape(len(loc), 2, -1)
        return found

    def loc_gradient(self, xp: Any, grid_gradient: Array) -> Array:
        """Return the gradient of the matrices, given that of the grid."""
        points = _affine_points(xp, self.target_shape, grid_gradient.dtype)
        found: Array = (grid_gradient @ points.T).reshape(-1, 6)
        return found

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data, loc = inputs
        _Reading(run.xp, data.shape, self.grid(run.xp, loc)).read(data, outputs[0])

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        data, loc = inputs
        reading = _Reading(run.xp, data.shape, self.grid(run.xp, loc))
        if in_grads[0] is not None:
            reading.spread(out_grads[0], in_grads[0])
        if in_grads[1] is not None:
            grid_grad = reading.grid_gradient(out_grads[0], data)
            in_grads[1][...] = self.loc_gradient(run.xp, grid_grad)
