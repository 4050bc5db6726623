"""Resizing of images."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import UsageError
from ..kernels.native.resize import resize_bytes
from .kernels import (
    AREA,
    CUBIC,
    LANCZOS,
    LINEAR,
    NEAREST,
    Values,
    check_method,
    saturated,
    weights_at,
)

__all__ = ["resize"]

_ONE = 2048
"""OpenCV's weights for uint8 are multiples of 1 / 2048."""
_LEAST_SHARE = 1e-3
"""Smaller fractions of a pixel are ignored in areas, as in OpenCV."""
_DTYPES = ("uint8", "float32", "float64")


def resize(image: Values, size: tuple[int, int], method: int = LINEAR) -> Values:
    """Resize an image (height, width, channels).

    Pixels are squares whose centers are interpolated; beyond the edges they repeat.

    Args:
        image: uint8, float32 or float64; any dtype with NEAREST.
        size: the new (height, width), each at least 1.
        method: see ``core.imgproc.kernels``.

    Raises:
        UsageError: the method, dtype or size is not supported.
    """
    check_method(method)
    old, new = (image.shape[0], image.shape[1]), (int(size[0]), int(size[1]))
    if min(*old, *new) < 1:
        raise UsageError(f"an image of (height, width) {old} cannot be resized to {new}")
    if method != NEAREST and image.dtype.name not in _DTYPES:
        raise UsageError(f"images of {image.dtype} cannot be resized; use one of {_DTYPES}")
    if old == new:
        return image.copy()
    if method == NEAREST:
        rows, columns = (_nearest(*lengths) for lengths in zip(old, new, strict=True))
        nearest: Values = image[rows][:, columns]
        return nearest
    # OpenCV takes INTER_LINEAR for INTER_AREA where both sides are halved.
    halves = all(was == 2 * is_ for was, is_ in zip(old, new, strict=True))
    shrinks = all(was >= is_ for was, is_ in zip(old, new, strict=True))
    if (method == AREA and shrinks) or (method == LINEAR and halves):
        return _by_area(image, new)
    if image.dtype == np.uint8:
        return _of_bytes(image, new, method)
    taps = [_taps(old[axis], new[axis], method, axis == 1) for axis in range(2)]
    return _of_floats(image, taps)


def _step(length: int, wanted: int) -> float:
    """Return the distance between new pixels, in source pixels.

    OpenCV divides twice, which can differ from ``length / wanted`` in the last bit.
    """
    return 1.0 / (wanted / length)


def _nearest(length: int, wanted: int) -> Values:
    step = _step(length, wanted)
    numbers: Values = np.floor(np.arange(wanted) * step).astype(int)
    return np.minimum(numbers, length - 1)


def _taps(length: int, wanted: int, method: int, is_across: bool) -> tuple[Values, Values]:
    """Return, for each new pixel, the indices of the source pixels and their weights."""
    step = _step(length, wanted)
    if method == AREA:
        # If a side grows, OpenCV's AREA is linear interpolation aligned at the pixels' corners.
        first = np.floor(np.arange(wanted) * step)
        fraction = (np.arange(wanted) + 1 - (first + 1) * (wanted / length)).astype(np.float32)
        fraction = np.where(fraction <= 0, 0, fraction - np.floor(fraction))
    else:
        place = ((np.arange(wanted) + 0.5) * step - 0.5).astype(np.float32)
        first = np.floor(place)
        fraction = place - first
    if method in (LINEAR, AREA) and is_across:
        # Only across; down the rows, OpenCV uses the same row for both neighbors at an edge.
        fraction = np.where((first < 0) | (first >= length - 1), 0, fraction)
        first = np.clip(first, 0, length - 1)
    weights = weights_at(fraction.astype(np.float64), method)
    count = weights.shape[1]
    numbers = first[:, None].astype(int) + np.arange(count) - (count // 2 - 1)
    return np.clip(numbers, 0, length - 1), weights.astype(np.float32)


@lru_cache(maxsize=512)
def _byte_taps(length: int, wanted: int, method: int, is_across: bool) -> tuple[Values, Values]:
    """Return ``_taps`` with weights in units of 1 / 2048, both int32."""
    numbers, weights = _taps(length, wanted, method, is_across)
    return numbers.astype(np.int32), np.rint(weights * _ONE).astype(np.int32)


def _of_bytes(image: Values, new: tuple[int, int], method: int) -> Values:
    taps = [_byte_taps(image.shape[axis], new[axis], method, axis == 1) for axis in range(2)]
    if method in (LINEAR, AREA):
        found = resize_bytes(image, taps)
        if found is not None:
            return found
    # With negative weights, sums can exceed 31 bits.
    integer = np.int64 if method in (CUBIC, LANCZOS) else np.int32
    (rows, down), (columns, across) = taps
    down, across = (part.astype(integer)[..., None, None] for part in (down, across))
    wide: Any = image.astype(integer)
    wide = sum(wide[:, columns[:, i]] * across[:, i, 0] for i in range(columns.shape[1]))
    if method in (CUBIC, LANCZOS):
        total = sum(wide[rows[:, i]] * down[:, i] for i in range(rows.shape[1]))
        mixed: Any = (total + (1 << 21)) >> 22  # 2048 squared, rounded to the nearest
    else:
        # OpenCV's fixed-point arithmetic: both shifts truncate.
        wide >>= 4
        upper, lower = (wide[rows[:, i]] * down[:, i] >> 16 for i in range(2))
        mixed = (upper + lower + 2) >> 2
    return saturated(mixed)


def _of_floats(image: Values, taps: list[tuple[Values, Values]]) -> Values:
    (rows, down), (columns, across) = taps
    wide: Any = sum(image[:, columns[:, i]] * across[:, i, None] for i in range(columns.shape[1]))
    result = sum(wide[rows[:, i]] * down[:, i, None, None] for i in range(rows.shape[1]))
    return np.asarray(result, dtype=image.dtype)


def _by_area(image: Values, size: tuple[int, int]) -> Values:
    lengths = [(image.shape[axis], size[axis]) for axis in range(2)]
    if image.dtype == np.uint8 and all(was % is_ == 0 for was, is_ in lengths):
        return _by_whole_pixels(image, size)
    # In OpenCV's precision and order, so that halves are rounded in the same direction.
    precision = np.float64 if image.dtype == np.float64 else np.float32
    (rows, down), (columns, across) = (_shares(*pair, precision) for pair in lengths)
    pixels = image.astype(precision)
    wide: Any = sum(pixels[:, columns[:, i]] * across[:, i, None] for i in range(columns.shape[1]))
    mixed: Any = sum(wide[rows[:, i]] * down[:, i, None, None] for i in range(rows.shape[1]))
    return saturated(np.rint(mixed)) if image.dtype == np.uint8 else np.asarray(mixed)


def _by_whole_pixels(image: Values, size: tuple[int, int]) -> Values:
    high, wide = image.shape[0] // size[0], image.shape[1] // size[1]
    blocks = image.astype(np.int64).reshape(size[0], high, size[1], wide, image.shape[2])
    total = blocks.sum(axis=(1, 3))
    # OpenCV rounds halves up in blocks of four pixels, and to even in all others.
    if (high, wide) == (2, 2):
        return saturated((total + 2) >> 2)
    return saturated(np.rint(total.astype(np.float32) * np.float32(1 / (high * wide))))


def _shares(length: int, wanted: int, precision: Any) -> tuple[Values, Values]:
    """Return the source pixels under each new pixel, and the fraction of it that each covers."""
    scale = _step(length, wanted)
    start = np.arange(wanted)[:, None] * scale
    width = np.minimum(scale, length - start)
    numbers = np.floor(start).astype(int) + np.arange(int(np.ceil(scale)) + 1)
    cover = np.minimum(numbers + 1, start + scale) - np.maximum(numbers, start)
    parts = np.where((cover > _LEAST_SHARE) & (numbers < length), cover, 0) / width
    return np.minimum(numbers, length - 1), parts.astype(precision)
