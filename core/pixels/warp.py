"""Images turned, sheared and scaled by an affine map."""

from __future__ import annotations

import numpy as np

from core.pixels.kernels import AREA, LINEAR, NEAREST, Values, check_method, saturated, weights_at

__all__ = ["warp_affine"]

_STEPS = 1024
"""OpenCV rounds the products of places and the matrix to 1 / 1024 of a pixel,"""
_PARTS = 32
"""and interpolates at multiples of 1 / 32."""


def warp_affine(
    image: Values, matrix: Values, size: tuple[int, int], method: int = LINEAR, fill: float = 0
) -> Values:
    """Return the image whose pixel ``matrix @ (x, y, 1)`` is pixel (x, y) of the old one.

    Args:
        image: (height, width, channels), uint8.
        matrix: (2, 3).
        size: the new (height, width).
        method: NEAREST, LINEAR, CUBIC or LANCZOS; AREA is LINEAR here.
        fill: value of what lies outside of the image.

    Raises:
        UsageError: a method that there is not.
    """
    method = LINEAR if check_method(method) == AREA else method
    across, down = _places(
        matrix, size, _STEPS // 2 if method == NEAREST else _STEPS // _PARTS // 2
    )
    if method == NEAREST:
        return _pixels(image, down >> 10, across >> 10, fill)
    shift = (_STEPS // _PARTS).bit_length() - 1
    across, down = across >> shift, down >> shift
    table = weights_at(np.arange(_PARTS) / _PARTS, method)
    taps = table.shape[1]
    across_weights, down_weights = table[across % _PARTS], table[down % _PARTS]
    first_column = (across // _PARTS) - (taps // 2 - 1)
    first_row = (down // _PARTS) - (taps // 2 - 1)
    mixed = np.zeros((*size, image.shape[2]))
    for row in range(taps):
        for column in range(taps):
            weight = down_weights[..., row] * across_weights[..., column]
            found = _pixels(image, first_row + row, first_column + column, fill)
            mixed += weight[..., None] * found
    return saturated(np.floor(mixed + 0.5))


def _places(matrix: Values, size: tuple[int, int], rounding: int) -> tuple[Values, Values]:
    """Return where each new pixel's x and y lie in the old image, in 1 / 1024 of a pixel."""
    (a, b, c), (d, e, f) = np.asarray(matrix, dtype=np.float64)
    determinant = a * e - b * d
    scale = 1 / determinant if determinant else 0.0
    a, b, d, e = e * scale, -b * scale, -d * scale, a * scale
    c, f = -a * c - b * f, -d * c - e * f
    y, x = np.arange(size[0])[:, None], np.arange(size[1])
    found = []
    for by_x, by_y, start in ((a, b, c), (d, e, f)):
        of_row = np.rint((by_y * y + start) * _STEPS).astype(np.int64) + rounding
        found.append(of_row + np.rint(by_x * x * _STEPS).astype(np.int64))
    return found[0], found[1]


def _pixels(image: Values, rows: Values, columns: Values, fill: float) -> Values:
    height, width = image.shape[:2]
    is_inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    found = image[np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)]
    return np.where(is_inside[..., None], found, np.asarray(fill, dtype=image.dtype))
