"""Which axis of each output has the examples, told from batches of two sizes."""

from __future__ import annotations

from core.types import Shape

__all__ = ["NO_AXIS", "TWO_SIZES", "batch_axis", "growing_axes"]

TWO_SIZES = (2, 3)
NO_AXIS = -1
"""Of an output whose rows are not those of examples: it is answered whole."""


def batch_axis(first: Shape, second: Shape) -> int:
    """Return the axis of the examples in an output: the only one that changes with the batch.

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
