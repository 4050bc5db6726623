"""Maxima over the bins of regions of interest (Girshick, "Fast R-CNN", 2015)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from ...capabilities import sampling as kinds
from ...capabilities.kinds import implements
from ...types import Array, Shape
from ..attributes import attribute
from ..operator import Reads, Run
from ..precision import wide_backward, wide_forward
from ..registry import register
from .regions import OnRegions, half_away, image_numbers

__all__ = ["ROIPooling"]

_Bins = list[list[int]]


@register("ROIPooling")
@implements(kinds.ROI_POOL)
class ROIPooling(OnRegions):
    """The maximum of each bin of each region; 0 for an empty bin.

    ``rois`` is (regions, 5): image, left, top, right, bottom; coordinates are scaled and rounded,
    right and bottom inclusive. MXNet stores the positions of the maxima in a hidden second output.
    """

    names_outputs: ClassVar[bool] = True

    pooled_size: Shape = attribute(doc="height and width of the output")
    spatial_scale: float = attribute(
        minimum=0,
        maximum=1,
        doc="size of the map divided by the size of the image in which regions are given",
    )

    def __post_init__(self) -> None:
        self.check_pooled_size()

    def pooled(self) -> Shape:
        return self.pooled_size

    def stored_outputs(self) -> int:
        """MXNet has a hidden output: the positions of the maxima."""
        return 2

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0, 1))

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data, out = inputs[0], outputs[0]
        out.fill(0)
        last = _channels_last(run, data)
        for region, image, rows, columns in self._regions(run.xp, inputs[1], data.shape):
            top, left = rows[0][0], columns[0][0]
            crop = last[image, top : rows[-1][1], left : columns[-1][1]]
            lines = run.xp.zeros((len(columns), len(crop), data.shape[1]), dtype=data.dtype)
            for line, (start, end) in zip(lines, columns, strict=True):
                if end > start:
                    run.xp.max(crop[:, start - left : end - left], axis=1, out=line)
            for i, (start, end) in enumerate(rows):
                if end > start:
                    out[region, :, i] = lines[:, start - top : end - top].max(axis=1).T

    @wide_backward
    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        xp, data, data_grad = run.xp, inputs[0], in_grads[0]
        assert data_grad is not None
        last = _channels_last(run, data)
        gradient = run.scratch(last.shape, last.dtype)
        gradient.fill(0)
        channel = xp.arange(data.shape[1])
        for region, image, rows, columns in self._regions(xp, inputs[1], data.shape):
            filled = [i for i, (start, end) in enumerate(columns) if end > start]
            if not filled:
                continue
            top, bottom = rows[0][0], rows[-1][1]
            crop = xp.moveaxis(last[image, top:bottom], 1, 0)
            found = [_first_maxima(xp, crop[slice(*columns[i])]) for i in filled]
            # The maxima of each bin of columns, for every row and channel.
            lines = xp.stack([maxima for maxima, _ in found], axis=1)
            starts = xp.asarray([columns[i][0] for i in filled])[:, None]
            places = xp.stack([place for _, place in found], axis=1) + starts
            for i, (start, end) in enumerate(rows):
                if end <= start:
                    continue
                maxima, row = _first_maxima(xp, lines[start - top : end - top])
                row += start - top
                column = xp.take_along_axis(places, row[None], axis=0)[0]
                flat = ((row + top) * data.shape[3] + column) * data.shape[1] + channel
                grad = out_grads[0][region, :, i][:, xp.asarray(filled)].T
                # The maximum of nothing but NaN is its replacement, which has no gradient.
                grad = xp.where(maxima > xp.finfo(data.dtype).min, grad, 0)
                xp.add.at(gradient[image].reshape(-1), flat.reshape(-1), grad.reshape(-1))
        xp.copyto(data_grad, xp.moveaxis(gradient, -1, 1))

    def _regions(
        self, xp: Any, rois: Array, shape: Shape
    ) -> Iterator[tuple[int, int, _Bins, _Bins]]:
        """Yield each region's index, its image, and its bins of rows and of columns."""
        images, rows, columns = (found.tolist() for found in self.bins(xp, rois, shape))
        for region, image in enumerate(images):
            if image >= 0:
                yield region, image, rows[region], columns[region]

    def bins(self, xp: Any, rois: Array, shape: Shape) -> tuple[Array, Array, Array]:
        """Return the image of each region, and the bounds of its bins down and across."""
        corners = half_away(xp, rois[:, 1:] * rois.dtype.type(self.spatial_scale))
        height, width = self.pooled_size
        rows = _bins(xp, corners[:, 1], corners[:, 3], height, shape[2])
        columns = _bins(xp, corners[:, 0], corners[:, 2], width, shape[3])
        return image_numbers(rois, shape[0]), rows, columns


def _bins(xp: Any, start: Array, end: Array, places: int, length: int) -> Array:
    """Return the start and end of each region's bins along an axis, clipped to it."""
    step = (xp.maximum(end - start + 1, 1) / start.dtype.type(places))[:, None]
    place = xp.arange(places, dtype=start.dtype)
    begins = xp.floor(place * step) + start[:, None]
    ends = xp.ceil((place + 1) * step) + start[:, None]
    bins: Array = xp.clip(xp.stack((begins, ends), axis=-1), 0, length).astype("int64")
    return bins


def _first_maxima(xp: Any, slabs: Array) -> tuple[Array, Array]:
    """Return the maxima along the first axis, and the first position of each."""
    maxima = slabs[0].copy()
    places = xp.zeros(maxima.shape, dtype="int32")
    for place in range(1, len(slabs)):
        is_larger = slabs[place] > maxima
        xp.copyto(maxima, slabs[place], where=is_larger)
        xp.copyto(places, xp.int32(place), where=is_larger)
    return maxima, places


def _channels_last(run: Run, data: Array) -> Array:
    """Return the data as (images, height, width, channels), so that maxima run over contiguous rows
    of channels.

    NaN is replaced by the lowest number, because MXNet ignores it.
    """
    images, channels, *sizes = data.shape
    last = run.scratch((images, *sizes, channels), data.dtype)
    run.xp.fmax(run.xp.moveaxis(data, 1, -1), run.xp.finfo(data.dtype).min, out=last)
    return last
