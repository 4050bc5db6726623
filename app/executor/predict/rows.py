"""Slices of a batch along the batch axis."""

from __future__ import annotations

from core.types import Array

__all__ = ["rows_of"]


def rows_of(array: Array, start: int, count: int, axis: int) -> Array:
    """Return a view of some of the rows, given the axis that they are on."""
    if axis == 0:
        return array[start : start + count]
    index = [slice(None)] * array.ndim
    index[axis] = slice(start, start + count)
    return array[tuple(index)]
