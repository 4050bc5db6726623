"""OpenCV's interpolation kernels: the weights of the pixels around a point."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import UsageError

__all__ = [
    "AREA",
    "AUTOMATIC",
    "CUBIC",
    "LANCZOS",
    "LINEAR",
    "NEAREST",
    "check_method",
    "choose_method",
    "saturated",
    "weights_at",
]

Values = np.ndarray[Any, Any]

NEAREST, LINEAR, CUBIC, AREA, LANCZOS = range(5)
AUTOMATIC = 9
"""The method that chooses: cubic to enlarge both sides, area to shrink both, else linear."""

_SHARPNESS = -0.75
"""OpenCV's parameter of the cubic convolution kernel (Keys, 1981); other libraries have -0.5."""
_LANCZOS_TAPS = 8


def check_method(method: int) -> int:
    """Check and return the number of an interpolation method.

    Raises:
        UsageError: it is not 0 (nearest), 1 (linear), 2 (cubic), 3 (area) or 4 (Lanczos).
    """
    if method not in range(5):
        raise UsageError(
            f"interpolation {method} is unknown; use 0 (nearest), 1 (linear), 2 (cubic), 3 (area) "
            "or 4 (Lanczos)"
        )
    return method


def choose_method(method: int, old: tuple[int, int], new: tuple[int, int]) -> int:
    """Return an interpolation method for resizing from one (height, width) to another."""
    if method != AUTOMATIC:
        return check_method(method)
    if new[0] > old[0] and new[1] > old[1]:
        return CUBIC
    return AREA if new[0] < old[0] and new[1] < old[1] else LINEAR


def saturated(values: Values) -> Values:
    """Convert numbers to uint8, clipped to its range."""
    bytes_: Values = np.clip(values, 0, 255).astype(np.uint8)
    return bytes_


def weights_at(fractions: Values, method: int) -> Values:
    """Return the weights (points, taps) of the pixels around points between two pixels.

    Args:
        fractions: distance of each point from the pixel before it, 0 to 1.
        method: LINEAR (2 taps), CUBIC (4) or LANCZOS (8); half of the taps are at or before the
            point.
    """
    if method == CUBIC:
        return _cubic(fractions)
    return _lanczos(fractions) if method == LANCZOS else np.stack([1 - fractions, fractions], -1)


def _cubic(x: Values) -> Values:
    a, y = _SHARPNESS, 1 - x
    before = ((a * (x + 1) - 5 * a) * (x + 1) + 8 * a) * (x + 1) - 4 * a
    first, second = (((a + 2) * t - (a + 3)) * t * t + 1 for t in (x, y))
    return np.stack([before, first, second, 1 - before - first - second], -1)


def _lanczos(x: Values) -> Values:
    """Return sinc(t) sinc(t / 4) at the eight taps, normalized to a sum of 1."""
    taps = np.arange(_LANCZOS_TAPS)
    distance = x[:, None] - (taps - (_LANCZOS_TAPS // 2 - 1))
    values = np.sinc(distance) * np.sinc(distance / 4)
    scaled: Values = values / values.sum(axis=1, keepdims=True)
    return scaled
