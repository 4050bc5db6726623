"""Boxes: their corners, areas and overlaps.

The last axis holds the four numbers of a box: (left, top, right, bottom) in the format ``corner``,
or (x, y, width, height) with x and y its center in the format ``center``.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ...types import Array

__all__ = ["FORMATS", "Corners", "corners_of", "overlap"]

FORMATS = ("corner", "center")


@dataclasses.dataclass(frozen=True)
class Corners:
    """Boxes as separate arrays of left, top, right and bottom sides and of areas."""

    left: Array
    top: Array
    right: Array
    bottom: Array
    area: Array

    def __getitem__(self, index: Any) -> Corners:
        """Return some of the boxes."""
        return Corners(*(getattr(self, side.name)[index] for side in dataclasses.fields(self)))


def corners_of(xp: Any, boxes: Array, box_format: str) -> Corners:
    """Return the sides of boxes (..., 4); a box of negative width or height has the area 0."""
    first, second, third, fourth = (xp.ascontiguousarray(boxes[..., i]) for i in range(4))
    if box_format == "corner":
        left, top, right, bottom = first, second, third, fourth
        width, height = right - left, bottom - top
    else:
        width, height = third, fourth
        left, right = first - width / 2, first + width / 2
        top, bottom = second - height / 2, second + height / 2
    area = xp.where((width < 0) | (height < 0), 0, width * height)
    return Corners(left, top, right, bottom, area.astype(boxes.dtype, copy=False))


def overlap(xp: Any, a: Corners, b: Corners) -> tuple[Array, Array]:
    """Return the areas of intersection and union; the boxes broadcast against each other."""
    inside = xp.minimum(a.right, b.right)
    inside -= xp.maximum(a.left, b.left)
    xp.maximum(inside, 0, out=inside)
    height = xp.minimum(a.bottom, b.bottom)
    height -= xp.maximum(a.top, b.top)
    xp.maximum(height, 0, out=height)
    inside *= height
    union = xp.add(a.area, b.area, out=height)
    union -= inside
    return inside, union
