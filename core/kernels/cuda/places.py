"""Where the elements of a tensor lie in another that it is broadcast, permuted or cut from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...types import Array, Shape
from .launch import divisor

__all__ = ["MAX_AXES", "Axes", "broadcast_strides", "joined_axes", "places", "strides_of"]

MAX_AXES = 6
"""Most axes of ``Places``, after neighbours have been joined."""

_PLACES = np.dtype(
    [
        ("sizes", divisor(1).dtype, (MAX_AXES,)),
        ("strides", "<i8", (MAX_AXES,)),
        ("start", "<i8"),
        ("rank", "<i4"),
        ("padding", "V4"),
    ]
)
"""``Places`` of ``common.cuh``."""

Axes = list[tuple[int, ...]]
"""For each axis its size, then the strides of each tensor."""


def strides_of(shape: Shape) -> Shape:
    """Return the strides, in elements, of a tensor in C order."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def broadcast_strides(narrow: Shape, wide: Shape) -> Shape:
    """Return the strides of a tensor, seen with the shape it is broadcast to."""
    aligned = (1,) * (len(wide) - len(narrow)) + narrow
    own = strides_of(aligned)
    return tuple(0 if size == 1 else stride for size, stride in zip(aligned, own, strict=True))


def joined_axes(shape: Shape, *strides: Sequence[int]) -> Axes:
    """Return the axes of a tensor, of which neighbours are joined where that is possible in all
    tensors; axes of length 1 are dropped."""
    axes: Axes = []
    for size, *steps in zip(shape, *strides, strict=True):
        if size == 1:
            continue
        inner = tuple(steps)
        if axes and all(
            outer == step * size for outer, step in zip(axes[-1][1:], inner, strict=True)
        ):
            axes[-1] = (axes[-1][0] * size, *inner)
        else:
            axes.append((size, *inner))
    return axes


def places(axes: Axes, which: int = 0, start: int = 0) -> Array:
    """Return ``Places`` of ``common.cuh`` for one of the tensors of ``joined_axes``."""
    found = np.zeros(1, _PLACES)
    found["sizes"][0] = divisor(1)
    for position, (size, *strides) in enumerate(reversed(axes)):
        found["sizes"][0, position] = divisor(size)
        found["strides"][0, position] = strides[which]
    found["start"], found["rank"] = start, len(axes)
    return found
