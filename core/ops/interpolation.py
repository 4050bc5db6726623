"""Bilinear interpolation of a map at points between its elements."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..types import Array

__all__ = ["Neighbor", "add_to_neighbors", "neighbors"]


@dataclasses.dataclass(frozen=True)
class Neighbor:
    """For each of many points, one of the four elements around it.

    Attributes:
        position: flat index in the map, int64; an arbitrary valid one for elements outside.
        weight: its weight in the point's value; 0 outside the map.
        down: derivative of the weight by the point's row.
        across: derivative of the weight by the point's column.
    """

    position: Array
    weight: Array
    down: Array
    across: Array


def add_to_neighbors(xp: Any, target: Array, near: Neighbor, values: Array) -> None:
    """Add values (maps, channels, points) to contiguous maps (maps, channels, positions) at a
    neighbor.

    The maps are viewed as one vector, because NumPy's ``add.at`` is many times faster on vectors.
    """
    maps, channels, places = target.shape
    starts = xp.arange(0, target.size, places).reshape(maps, channels, 1)
    shares = values * near.weight[:, None]
    positions = starts + near.position[:, None]
    xp.add.at(target.reshape(-1), positions.reshape(-1), shares.reshape(-1))


def neighbors(xp: Any, y: Array, x: Array, height: int, width: int) -> list[Neighbor]:
    """Return the four neighbors of points, given by row and column, in a map of this size."""
    top, left = xp.floor(y), xp.floor(x)
    rows = _along(xp, top, y - top, height)
    columns = _along(xp, left, x - left, width)
    return [
        Neighbor(
            position=row * width + column,
            weight=near_y * near_x,
            down=slope_y * near_x,
            across=near_y * slope_x,
        )
        for row, near_y, slope_y in rows
        for column, near_x, slope_x in columns
    ]


def _along(xp: Any, low: Array, beyond: Array, size: int) -> list[tuple[Array, Array, Array]]:
    """Return index, weight and slope of both neighbors along one axis."""
    found = []
    for step, weight, slope in ((0, 1 - beyond, -1), (1, beyond, 1)):
        index = low + step
        inside = ((index >= 0) & (index <= size - 1)).astype(low.dtype)
        # Points at NaN have no neighbors, so that weights of NaN do not spread.
        place = xp.where(inside > 0, index, 0).astype("int64")
        found.append((place, xp.where(inside > 0, weight, 0), slope * inside))
    return found
