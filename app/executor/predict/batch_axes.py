"""Finds the batch axis of each output by comparing batches of two sizes."""

from __future__ import annotations

from core.types import Shape

__all__ = ["NO_AXIS", "TWO_SIZES", "batch_axis", "growing_axes"]

TWO_SIZES = (2, 3)
"""Not 1, which is the length of many other axes, and is broadcast."""

NO_AXIS = -1
"""Marks an output without a row per example, which is returned whole."""


def batch_axis(first: Shape, second: Shape) -> int:
    """Return the batch axis of an output: the only one whose length changes with the batch size.

    Args:
        first, second: its shapes for batches of ``TWO_SIZES``.
    """
    if len(first) != len(second):
        return NO_AXIS
    pairs = enumerate(zip(first, second, strict=True))
    changes = [axis for axis, (a, b) in pairs if a != b]
    return changes[0] if len(changes) == 1 and changes == growing_axes(first, second) else NO_AXIS


def growing_axes(first: Shape, second: Shape) -> list[int]:
    """Return the axes that are as long as batches of ``TWO_SIZES``."""
    if len(first) != len(second):
        return []
    pairs = enumerate(zip(first, second, strict=True))
    return [axis for axis, pair in pairs if pair == TWO_SIZES]
