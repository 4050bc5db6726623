"""Rows of a batch, which lie along one axis of each of its arrays."""

from __future__ import annotations

from core.types import Array

__all__ = ["rows_of"]


def rows_of(array: Array, start: int, count: int, axis: int) -> Array:
    """Return a view of some of the rows, which lie along an axis."""
    if axis == 0:
        return array[start : start + count]
    index = [slice(None)] * array.ndim
    index[axis] = slice(start, start + count)
    return array[tuple(index)]
