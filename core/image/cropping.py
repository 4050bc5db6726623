"""Cropping of images, with optional resizing.

Sizes of crops are (width, height). Images are (height, width, channels).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..compat.image_arguments import renamed_area
from ..ndarray import NDArray
from .reading import choose_interpolation, imresize

__all__ = [
    "center_crop",
    "fixed_crop",
    "random_crop",
    "random_size_crop",
    "resize_short",
    "scale_down",
]

_TRIALS = 10

Place = tuple[int, int, int, int]
"""Left, top, width, height."""


def scale_down(src_size: Sequence[int], size: Sequence[float]) -> tuple[int, int]:
    """Return (width, height) of the largest crop of a size's aspect ratio that fits in an image.

    Args:
        src_size: (width, height) of the image.
        size: (width, height) of the crop, unchanged if it fits.
    """
    w, h = size
    sw, sh = src_size
    if sh < h:
        w, h = float(w * sh) / h, sh
    if sw < w:
        w, h = sw, float(h * sw) / w
    return int(w), int(h)


def resize_short(src: NDArray, size: int, interp: int = 2) -> NDArray:
    """Resize an image so that its shorter edge is ``size``; see ``imresize`` for ``interp``."""
    h, w, _ = src.shape
    new_h, new_w = (size * h // w, size) if h > w else (size, size * w // h)
    return imresize(src, new_w, new_h, choose_interpolation(interp, (h, w, new_h, new_w)))


def fixed_crop(
    src: NDArray,
    x0: int,
    y0: int,
    w: int,
    h: int,
    size: Sequence[int] | None = None,
    interp: int = 2,
) -> NDArray:
    """Return the part of an image at (x0, y0), resized to ``size`` unless that is None."""
    part: NDArray = src[y0 : y0 + h, x0 : x0 + w]
    if size is None or (w, h) == tuple(size):
        return part
    return imresize(part, size[0], size[1], choose_interpolation(interp, (h, w, size[1], size[0])))


def random_crop(src: NDArray, size: Sequence[int], interp: int = 2) -> tuple[NDArray, Place]:
    """Return a random crop of an image, and its place; an image that is too small is enlarged."""
    h, w, _ = src.shape
    new_w, new_h = scale_down((w, h), size)
    x0, y0 = random.randint(0, w - new_w), random.randint(0, h - new_h)
    return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)


def center_crop(src: NDArray, size: Sequence[int], interp: int = 2) -> tuple[NDArray, Place]:
    """Return the center crop of an image, and its place; an image that is too small is enlarged."""
    h, w, _ = src.shape
    new_w, new_h = scale_down((w, h), size)
    x0, y0 = int((w - new_w) / 2), int((h - new_h) / 2)
    return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)


def random_size_crop(
    src: NDArray,
    size: Sequence[int],
    area: float | Sequence[float],
    ratio: Sequence[float],
    interp: int = 2,
    **kwargs: Any,
) -> tuple[NDArray, Place]:
    """Return a part of random area and shape, resized to ``size``, and its place.

    Args:
        src: the image.
        size: (width, height) of the result.
        area: smallest and largest fraction of the image's area; one number is the smallest, with 1
            as the largest.
        ratio: smallest and largest ratio of width to height.
        interp: see ``imresize``.
        **kwargs: ``min_area``, the old name of ``area``.

    If no attempt fits, it is the center of the image.
    """
    area = renamed_area(area, kwargs, "random_size_crop")
    h, w, _ = src.shape
    least, greatest = (area, 1.0) if isinstance(area, (int, float)) else area
    for _ in range(_TRIALS):
        target = random.uniform(least, greatest) * h * w
        log_ratio = np.log(ratio[0]), np.log(ratio[1])
        new_ratio = np.exp(random.uniform(*log_ratio))
        new_w = round(float(np.sqrt(target * new_ratio)))
        new_h = round(float(np.sqrt(target / new_ratio)))
        if new_w <= w and new_h <= h:
            x0, y0 = random.randint(0, w - new_w), random.randint(0, h - new_h)
            return fixed_crop(src, x0, y0, new_w, new_h, size, interp), (x0, y0, new_w, new_h)
    return center_crop(src, size, interp)
