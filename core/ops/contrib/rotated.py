"""Rotated regions of interest (Ma et al., "Rotation Proposals", 2018)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ...types import Array, Shape
from ..attributes import attribute
from ..interpolation import neighbors
from ..operator import Reads, Run
from ..precision import wide_forward
from ..registry import register
from .regions import OnRegions, image_numbers

__all__ = ["RROIAlign"]


@register("_contrib_RROIAlign")
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
        -1, doc="points per place in each direction; -1 for as many as elements covered"
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
        for region, image in enumerate(image_numbers(rois, len(data)).tolist()):
            if image >= 0:
                out[region] = self._mean(run.xp, data[image], rois[region, 1:].tolist())

    def _mean(self, xp: Any, data: Array, roi: list[float]) -> Array:
        middle_x, middle_y, width, height = (number * self.spatial_scale for number in roi[:4])
        y, x = (
            self._points(xp, max(size, 1.0), places).astype(data.dtype)
            for size, places in zip((height, width), self.pooled_size, strict=True)
        )
        shape = (*y.shape, *x.shape)
        y = xp.broadcast_to(y[:, :, None, None], shape)
        angle = math.radians(roi[4])
        cosine, sine = math.cos(angle), math.sin(angle)
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

    def _points(self, xp: Any, size: float, places: int) -> Array:
        """Return the distances of all points from the region's center, (places, points)."""
        step = size / places
        count = self.sampling_ratio if self.sampling_ratio > 0 else math.ceil(step)
        point = (xp.arange(count) + 0.5) / count
        return (xp.arange(places)[:, None] + point) * step - size / 2
