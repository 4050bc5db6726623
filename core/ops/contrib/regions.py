"""Regions of interest: parts of feature maps, resampled to a common size.

A region is a row (image, left, top, right, bottom); its coordinates times ``spatial_scale`` are
those of the map. The weight of a map element in an output element is a product of one weight for
its row and one for its column, so that pooling amounts to two matrix products.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from ...capabilities import sampling as kinds
from ...capabilities.kinds import implements
from ...errors import AttributeValueError, MXNetError, ShapeError
from ...types import Array, DType, Shape
from ..attributes import attribute
from ..lookup import check_range
from ..operator import Operator, Reads, Run
from ..precision import wide_backward, wide_forward
from ..registry import register

__all__ = ["OnRegions", "PSROIPooling", "ROIAlign", "half_away", "image_numbers"]


def half_away(xp: Any, x: Array) -> Array:
    """Round to integers, halves away from zero, like C's ``round``."""
    # Unlike in floor(|x| + 0.5), every step is exact: the sum would round 0.49999997 up to 1.
    whole = xp.trunc(x)
    return whole + xp.trunc((x - whole) * 2)


def image_numbers(rois: Array, images: int) -> Array:
    """Return the image index of each region; raise OutOfRange if there is no such image."""
    numbers = rois[:, 0].astype("int64")
    check_range(numbers, -1, images)
    return numbers


class OnRegions(Operator):
    """Base: ``data`` (images, channels, height, width) and ``rois`` (regions, numbers)."""

    roi_numbers: ClassVar[int] = 5

    def input_names(self) -> tuple[str, ...]:
        return ("data", "rois")

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return (0,)

    def backward_reads(self) -> Reads:
        return Reads(inputs=(1,))

    @abc.abstractmethod
    def pooled(self) -> Shape:
        """Return the height and width of the output."""

    def channels(self, data: int) -> int:
        """Return the number of output channels."""
        return data

    def check_pooled_size(self, name: str = "pooled_size") -> None:
        """Raise AttributeValueError unless the output's height and width are positive."""
        pooled = self.pooled()
        if len(pooled) != 2 or min(pooled) < 1:
            raise AttributeValueError(
                f"{name} is {pooled}; expected height and width of at least 1"
            )

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = self.expect("data", inputs[0], (0, 0, 0, 0))
        rois = self.expect("rois", inputs[1], (0, self.roi_numbers))
        channels = self.channels(data[1]) if data[1] else 0
        output = self.expect("output", outputs[0], (rois[0], channels, *self.pooled()))
        return [data, (output[0], rois[1]), *inputs[2:]], [output]


@dataclasses.dataclass(frozen=True)
class _Weights:
    """The weights of an image's rows and columns in the output rows and columns of each region.

    Attributes:
        images: (regions,), image indices, below 0 for a region without an image.
        rows: (regions, output height, height).
        columns: (regions, output width, width).
    """

    images: Array
    rows: Array
    columns: Array

    def by_region(self, xp: Any) -> Iterator[tuple[int, int, _Crop]]:
        """Yield the index of each region with an image, the image's index, and the region's
        crop."""
        images = self.images.tolist()
        extents = zip(_extents(xp, self.rows), _extents(xp, self.columns), strict=True)
        for region, (image, (down, across)) in enumerate(zip(images, extents, strict=True)):
            if image >= 0:
                rows, columns = self.rows[region][:, down], self.columns[region][:, across]
                yield region, image, _Crop(down, across, rows, columns)


@dataclasses.dataclass(frozen=True)
class _Crop:
    """The part of an image in which a region has weights other than 0, and these weights."""

    down: slice
    across: slice
    rows: Array
    columns: Array

    def of(self, image: Array) -> Array:
        """Return this part of an image (..., height, width)."""
        return image[..., self.down, self.across]


def _extents(xp: Any, weights: Array) -> list[slice]:
    """Return for each region the range of elements with weights other than 0."""
    used = (weights != 0).any(axis=1)
    starts = used.argmax(axis=1)
    ends = xp.where(used.any(axis=1), used.shape[1] - used[:, ::-1].argmax(axis=1), 0)
    return [slice(*pair) for pair in zip(starts.tolist(), ends.tolist(), strict=True)]


class _Weighted(OnRegions):
    """Pooling by weights; with ``groups``, each position of the output reads its own channels."""

    @abc.abstractmethod
    def weigh(self, xp: Any, rois: Array, shape: Shape) -> _Weights:
        """Return the weights of the regions, for data of this shape."""

    def groups(self) -> Shape | None:
        """Return the number of channel groups, down and across; None without groups."""
        return None

    def _place_groups(self, xp: Any, groups: Shape) -> tuple[Array, Array]:
        """Return the group of each row, (height, 1), and of each column of the output."""
        down, across = (
            xp.arange(size) * count // size
            for size, count in zip(self.pooled(), groups, strict=True)
        )
        return down[:, None], across

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        xp, data, out = run.xp, inputs[0], outputs[0]
        out.fill(0)
        weights, groups = self.weigh(xp, inputs[1], data.shape), self.groups()
        for region, image, crop in weights.by_region(xp):
            part = crop.of(data[image])
            if groups is None:
                xp.matmul(xp.matmul(crop.rows, part), crop.columns.T, out=out[region])
                continue
            split = part.reshape(out.shape[1], *groups, *part.shape[1:])
            placed = split[:, *self._place_groups(xp, groups)]
            lines = (placed * crop.columns[:, None]).sum(axis=4)
            out[region] = (lines * crop.rows[:, None]).sum(axis=3)

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        xp, grad, data_grad = run.xp, out_grads[0], in_grads[0]
        assert data_grad is not None
        data_grad.fill(0)
        weights, groups = self.weigh(xp, inputs[1], data_grad.shape), self.groups()
        for region, image, crop in weights.by_region(xp):
            target = crop.of(data_grad[image])
            if groups is None:
                target += xp.matmul(xp.matmul(crop.rows.T, grad[region]), crop.columns)
                continue
            # Reshaping the crop would copy it, because its rows are not contiguous: hence reshape
            # first.
            split = crop.of(data_grad[image].reshape(grad.shape[1], *groups, *data_grad.shape[2:]))
            down, across = self._place_groups(xp, groups)
            pairs = itertools.product(enumerate(down[:, 0].tolist()), enumerate(across.tolist()))
            for (i, row), (j, column) in pairs:
                lines = grad[region, :, i, j, None, None] * crop.rows[i][:, None]
                split[:, row, column] += lines * crop.columns[j]


@register("_contrib_ROIAlign")
class ROIAlign(_Weighted):
    """Means of interpolated points of a map (He et al., "Mask R-CNN", 2017).

    ``rois`` is (regions, 5); regions of image -1 give zeros. Each position of the output is the
    mean of ``sample_ratio``² points, by default as many as it covers elements. Regions are enlarged
    to at least 1 by 1; with ``aligned`` they keep their size and begin half an element earlier.
    With ``position_sensitive`` each position of the output reads separate channels.
    """

    names_outputs: ClassVar[bool] = True

    pooled_size: Shape = attribute(doc="height and width of the output")
    spatial_scale: float = attribute(
        doc="size of the map divided by the size of the image in which regions are given"
    )
    sample_ratio: int = attribute(
        -1, doc="points per position in each direction; -1 for as many as elements covered"
    )
    position_sensitive: bool = attribute(
        False, doc="whether each position of the output reads separate channels"
    )
    aligned: bool = attribute(False, doc="whether coordinates are shifted by half a pixel")

    def __post_init__(self) -> None:
        self.check_pooled_size()

    def pooled(self) -> Shape:
        return self.pooled_size

    def groups(self) -> Shape | None:
        return self.pooled_size if self.position_sensitive else None

    def channels(self, data: int) -> int:
        if not self.position_sensitive:
            return data
        places = self.pooled_size[0] * self.pooled_size[1]
        if data % places:
            raise ShapeError(f"data has {data} channels; expected a multiple of {places} positions")
        return data // places

    def weigh(self, xp: Any, rois: Array, shape: Shape) -> _Weights:
        corners = rois[:, 1:] * rois.dtype.type(self.spatial_scale)
        if self.aligned:
            corners -= rois.dtype.type(0.5)
        starts, sizes = corners[:, :2], corners[:, 2:] - corners[:, :2]
        if not self.aligned:
            sizes = xp.maximum(sizes, 1)
        elif (sizes <= 0).any():
            raise MXNetError("ROIAlign: with aligned, every region of rois needs width and height")
        height, width = self.pooled_size
        rows = self._hats(xp, starts[:, 1], sizes[:, 1], height, shape[2])
        columns = self._hats(xp, starts[:, 0], sizes[:, 0], width, shape[3])
        return _Weights(image_numbers(rois, shape[0]), rows, columns)

    def _hats(self, xp: Any, start: Array, size: Array, places: int, length: int) -> Array:
        """Return the weights along one axis: for each element, by its distance from the points."""
        step = (size / places)[:, None, None]
        if self.sample_ratio > 0:
            counts, most = self.sample_ratio, self.sample_ratio
        else:
            counts = xp.ceil(step)
            most = int(counts.max()) if counts.size else 1
        place = xp.arange(places, dtype=start.dtype)[:, None]
        sample = xp.arange(most, dtype=start.dtype)
        points = start[:, None, None] + place * step + (sample + 0.5) * step / counts
        # As in Detectron's code, points up to one element outside count, with the border's value.
        counted = (points >= -1) & (points <= length) & (sample < counts)
        points = xp.clip(points, 0, length - 1)
        weights = xp.zeros((len(start), places, length), dtype=start.dtype)
        element = xp.arange(length, dtype=start.dtype)
        for i in range(most):
            near = 1 - abs(points[..., i, None] - element)
            weights += xp.maximum(near, 0) * counted[..., i, None]
        weights /= counts
        return weights


@register("_contrib_PSROIPooling")
@implements(kinds.PSROI_POOL)
class PSROIPooling(_Weighted):
    """Means over bins, each of which reads separate channels (Dai et al., "R-FCN", 2016).

    ``data`` has ``output_dim · group_size²`` channels, ``rois`` is (regions, 5); coordinates are
    rounded to integers, right and bottom inclusive.
    """

    names_outputs: ClassVar[bool] = True

    spatial_scale: float = attribute(
        minimum=0,
        maximum=1,
        doc="size of the data divided by the size of the image in which regions are given",
    )
    output_dim: int = attribute(minimum=1, doc="number of output channels")
    pooled_size: int = attribute(minimum=1, doc="height and width of the output")
    group_size: int = attribute(
        0, minimum=0, doc="channel groups in each direction; 0 for pooled_size"
    )

    def pooled(self) -> Shape:
        return (self.pooled_size, self.pooled_size)

    def groups(self) -> Shape | None:
        size = self.group_size or self.pooled_size
        return (size, size)

    def channels(self, data: int) -> int:
        expected = self.output_dim * (self.group_size or self.pooled_size) ** 2
        if data != expected:
            raise ShapeError(
                f"data has {data} channels; expected output_dim {self.output_dim} times the "
                f"{expected // self.output_dim} groups"
            )
        return self.output_dim

    def bins(self, xp: Any, rois: Array, shape: Shape) -> tuple[Array, Array, Array]:
        """Return the image of each region, and the bounds of its bins down and across."""
        corners = half_away(xp, rois[:, 1:])
        scale = rois.dtype.type(self.spatial_scale)
        starts, ends = corners[:, :2] * scale, (corners[:, 2:] + 1) * scale
        # As in the authors' code, no region is empty.
        sizes = xp.maximum(ends - starts, rois.dtype.type(0.1))
        return (
            image_numbers(rois, shape[0]),
            self._bins(xp, starts[:, 1], sizes[:, 1], shape[2]),
            self._bins(xp, starts[:, 0], sizes[:, 0], shape[3]),
        )

    def _bins(self, xp: Any, start: Array, size: Array, length: int) -> Array:
        step = (size / self.pooled_size)[:, None]
        place = xp.arange(self.pooled_size, dtype=start.dtype)
        begins = xp.floor(place * step + start[:, None])
        ends = xp.ceil((place + 1) * step + start[:, None])
        bins: Array = xp.clip(xp.stack((begins, ends), axis=-1), 0, length).astype("int64")
        return bins

    def weigh(self, xp: Any, rois: Array, shape: Shape) -> _Weights:
        images, rows, columns = self.bins(xp, rois, shape)
        return _Weights(
            images,
            _means(xp, rows, shape[2], rois.dtype),
            _means(xp, columns, shape[3], rois.dtype),
        )


def _means(xp: Any, bins: Array, length: int, dtype: DType) -> Array:
    """Return the weights of an axis's elements in the mean over each bin."""
    element = xp.arange(length)
    weights = ((element >= bins[..., :1]) & (element < bins[..., 1:])).astype(dtype)
    weights /= xp.maximum(weights.sum(axis=-1, keepdims=True), 1)
    found: Array = weights
    return found
