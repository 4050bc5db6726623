"""Rotated regions of interest (Ma et al., "Rotation Proposals", 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ...capabilities import sampling as kinds
from ...capabilities.kinds import implements
from ...types import Array, Shape
from ..attributes import attribute
from ..interpolation import neighbors
from ..operator import Reads, Run
from ..precision import wide_forward
from ..registry import register
from .regions import OnRegions, image_numbers

__all__ = ["RROIAlign"]


@register("_contrib_RROIAlign")
@implements(kinds.RROI_ALIGN)
class RROIAlign(OnRegions):
    """Means of interpolated points of a map, in rotated regions.

    ``rois`` is (regions, 6): image, center x and y, width, height, angle in degrees. It has no
    gradient, as in MXNet.
    """

    names_outputs: ClassVar[bool] = True

    roi_numbers: ClassVar[int] = 6

    pooled_size: Shape = attribute(doc="height and width of the output")
    spatial_scale: float = attribute(
        doc="size of the map divided by the size of the image in which regions are given"
    )
    sampling_ratio: int = attribute(
        -1, doc="points per position in each direction; -1 for as many as elements covered"
    )

    def __post_init__(self) -> None:
        self.check_pooled_size()

    def pooled(self) -> Shape:
        return self.pooled_size

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)

    @wide_forward
    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data, rois = inputs
        out = outputs[0]
        out.fill(0)
        images, frames = self.frames(run.xp, rois, len(data))
        for region, image in enumerate(images.tolist()):
            if image >= 0:
                out[region] = self._mean(run.xp, data[image], frames[region].tolist())

    def frames(self, xp: Any, rois: Array, images: int) -> tuple[Array, Array]:
        """Return images and frames of the regions; see ``RroiAlign``."""
        middle_x, middle_y, width, height, angle = rois[:, 1:].astype("float64").T
        radians = xp.deg2rad(angle)
        sizes = [xp.maximum(size * self.spatial_scale, 1.0) for size in (height, width)]
        steps = [size / places for size, places in zip(sizes, self.pooled_size, strict=True)]
        if self.sampling_ratio > 0:
            counts = [xp.full_like(step, self.sampling_ratio) for step in steps]
        else:
            counts = [xp.ceil(step) for step in steps]
        middles = [middle * self.spatial_scale for middle in (middle_x, middle_y)]
        columns = (*middles, xp.cos(radians), xp.sin(radians), *sizes, *counts)
        return image_numbers(rois, images), xp.stack(columns, axis=1)

    def _mean(self, xp: Any, data: Array, frame: list[float]) -> Array:
        middle_x, middle_y, cosine, sine, *sizes = frame
        y, x = (
            _points(xp, size, places, int(count)).astype(data.dtype)
            for size, count, places in zip(sizes[:2], sizes[2:], self.pooled_size, strict=True)
        )
        shape = (*y.shape, *x.shape)
        y = xp.broadcast_to(y[:, :, None, None], shape)
        across = x * cosine + y * sine + middle_x
        down = y * cosine - x * sine + middle_y
        rows, columns = data.shape[1:]
        counted = (down >= -1) & (down <= rows) & (across >= -1) & (across <= columns)
        down, across = xp.clip(down, 0, rows - 1), xp.clip(across, 0, columns - 1)
        flat = data.reshape(len(data), -1)
        value = sum(
            flat[:, near.position] * (near.weight * counted)
            for near in neighbors(xp, down, across, rows, columns)
        )
        mean: Array = value.mean(axis=(2, 4))
        return mean


def _points(xp: Any, size: float, places: int, count: int) -> Array:
    """Return the distances of all points from the region's center, (positions, points)."""
    point = (xp.arange(count) + 0.5) / count
    return (xp.arange(places)[:, None] + point) * (size / places) - size / 2
