"""Adding borders to images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import UsageError
from .kernels import Values

__all__ = ["add_border"]

_ISOLATED = 16
"""OpenCV's flag BORDER_ISOLATED; it matters only for views of larger images, so it is ignored."""


def add_border(
    image: Values,
    edges: tuple[int, int, int, int],
    kind: int = 0,
    values: float | Sequence[float] = 0.0,
) -> Values:
    """Return an image with a border added.

    Args:
        image: (height, width, channels).
        edges: number of pixels to add at (top, bottom, left, right).
        kind: 0 constant, 1 mirrored with the edge, 2 repeated, 3 continued from the other side,
            4 mirrored without the edge. (OpenCV's numbers; MXNet's documentation has others.)
        values: for kind 0: one for all channels, or up to four; missing ones are 0.

    Raises:
        UsageError: the kind is unknown, or an edge is negative.
    """
    top, bottom, left, right = edges
    if min(edges) < 0:
        raise UsageError(f"edges are {edges}; expected numbers of pixels, not below 0")
    around = ((top, bottom), (left, right), (0, 0))
    kind &= ~_ISOLATED
    if kind == 0:
        given = [values] if isinstance(values, (int, float)) else list(values)
        channels = image.shape[2]
        filled = given * channels if len(given) == 1 else [*given, 0, 0, 0, 0]
        result = np.empty(
            (image.shape[0] + top + bottom, image.shape[1] + left + right, channels), image.dtype
        )
        result[...] = _saturated(np.asarray(filled[:channels]), image.dtype)
        result[top : top + image.shape[0], left : left + image.shape[1]] = image
        return result
    modes = {1: "edge", 2: "symmetric", 3: "wrap", 4: "reflect"}
    if kind not in modes:
        raise UsageError(f"border type {kind} is unknown; use 0 to 4")
    return np.pad(image, around, mode=modes[kind])  # type: ignore[call-overload, no-any-return]


def _saturated(values: Values, dtype: np.dtype[Any]) -> Values:
    if dtype.kind not in "iu":
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    return np.clip(np.rint(values), limits.min, limits.max).astype(dtype)
