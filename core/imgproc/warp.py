"""Affine transformations of images."""

from __future__ import annotations

import numpy as np

from .kernels import AREA, LINEAR, NEAREST, Values, check_method, saturated, weights_at

__all__ = ["warp_affine"]

_STEPS = 1024
"""OpenCV rounds the products of coordinates and the matrix to 1 / 1024 of a pixel."""
_PARTS = 32
"""OpenCV interpolates at multiples of 1 / 32 of a pixel."""


def warp_affine(
    image: Values, matrix: Values, size: tuple[int, int], method: int = LINEAR, fill: float = 0
) -> Values:
    """Return the image whose pixel at ``matrix @ (x, y, 1)`` is the old image's pixel at (x, y).

    Args:
        image: (height, width, channels), uint8.
        matrix: (2, 3).
        size: the new (height, width).
        method: NEAREST, LINEAR, CUBIC or LANCZOS; AREA is LINEAR here.
        fill: value outside of the old image.

    Raises:
        UsageError: the method is unknown.
    """
    method = LINEAR if check_method(method) == AREA else method
    across, down = _places(
        matrix, size, _STEPS // 2 if method == NEAREST else _STEPS // _PARTS // 2
    )
    if method == NEAREST:
        pixels, first = _framed(image, down >> 10, across >> 10, 1, fill)
        nearest: Values = pixels[first]
        return nearest
    shift = (_STEPS // _PARTS).bit_length() - 1
    across, down = across >> shift, down >> shift
    # Linear weights are multiples of 1 / 1024, so sums in single precision are exact.
    precision = np.float32 if method == LINEAR else np.float64
    table = weights_at(np.arange(_PARTS) / _PARTS, method).astype(precision)
    taps = table.shape[1]
    across_weights, down_weights = table[across % _PARTS], table[down % _PARTS]
    before = taps // 2 - 1
    rows, columns = down // _PARTS - before, across // _PARTS - before
    pixels, first = _framed(image.astype(precision), rows, columns, taps, fill)
    line = image.shape[1] + 2 * taps
    mixed = np.zeros((*size, image.shape[2]), dtype=precision)
    for row in range(taps):
        for column in range(taps):
            weight = down_weights[..., row] * across_weights[..., column]
            mixed += weight[..., None] * pixels[first + (row * line + column)]
    return saturated(np.floor(mixed + precision(0.5)))


def _places(matrix: Values, size: tuple[int, int], rounding: int) -> tuple[Values, Values]:
    """Return the coordinates of each new pixel in the old image, in units of 1 / 1024 of a
    pixel."""
    (a, b, c), (d, e, f) = np.asarray(matrix, dtype=np.float64)
    determinant = a * e - b * d
    # As in OpenCV, a matrix without an inverse maps every pixel to one position.
    scale = 1 / determinant if determinant else 0.0
    a, b, d, e = e * scale, -b * scale, -d * scale, a * scale
    c, f = -a * c - b * f, -d * c - e * f
    y, x = np.arange(size[0])[:, None], np.arange(size[1])
    found = []
    for by_x, by_y, start in ((a, b, c), (d, e, f)):
        # In OpenCV's order: the parts of the row and of the column are rounded before they are
        # added.
        of_row = np.rint((by_y * y + start) * _STEPS).astype(np.int64) + rounding
        found.append(of_row + np.rint(by_x * x * _STEPS).astype(np.int64))
    return found[0], found[1]


def _framed(
    image: Values, rows: Values, columns: Values, taps: int, fill: float
) -> tuple[Values, Values]:
    """Return the pixels (count, channels) of the image with a frame, and the indices of some
    pixels.

    The frame is as wide as the number of taps; indices beyond it are clipped to it.
    """
    height, width = image.shape[:2]
    frame = ((taps, taps), (taps, taps), (0, 0))
    pixels = np.pad(image, frame, constant_values=fill).reshape(-1, image.shape[2])
    y, x = np.clip(rows, -taps, height) + taps, np.clip(columns, -taps, width) + taps
    return pixels, y * (width + 2 * taps) + x
