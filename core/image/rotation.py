"""Rotation of images (channels, height, width), float32, with the operator BilinearSampler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ndarray import BilinearSampler, NDArray, array

__all__ = ["imrotate", "random_rotate"]


def imrotate(
    src: NDArray, rotation_degrees: Any, zoom_in: bool = False, zoom_out: bool = False
) -> NDArray:
    """Return an image, or a batch of them, rotated about the center.

    Args:
        src: (channels, height, width) or (batch, channels, height, width), float32.
        rotation_degrees: angle; for a batch also an array with one for each image.
        zoom_in: enlarge so that nothing outside the image is visible.
        zoom_out: shrink so that the whole image is visible.

    Raises:
        ValueError, TypeError: arguments that contradict each other.
    """
    if zoom_in and zoom_out:
        raise ValueError("`zoom_in` and `zoom_out` cannot be both True")
    if src.dtype != np.float32:
        raise TypeError(f"Only `float32` images are supported by this function, got {src.dtype}")
    is_number = isinstance(rotation_degrees, (int, float, np.number))
    if src.ndim == 3 and not is_number:
        raise TypeError("When a single image is passed the rotation angle is a number")
    if src.ndim not in (3, 4):
        raise ValueError(f"Only 3D and 4D are supported by this function, got shape {src.shape}")
    images = src.expand_dims(axis=0) if src.ndim == 3 else src
    count = images.shape[0]
    if is_number:
        degrees = np.full(count, rotation_degrees, dtype=np.float32)
    else:
        given = rotation_degrees
        degrees = given.asnumpy() if isinstance(given, NDArray) else np.asarray(given, np.float32)
    if len(degrees) != count:
        raise ValueError(
            f"The number of images must be equal to the number of rotation angles: {count} images, "
            f"{len(degrees)} angles"
        )
    grid = _grid(images.shape[2:], np.radians(degrees.astype(np.float32)))
    if zoom_in or zoom_out:
        grid *= _zoom(images.shape[2:], np.radians(degrees), zoom_out)[:, None, None, None]
    turned: NDArray = BilinearSampler(images, array(grid, ctx=src.context))
    return turned[0] if src.ndim == 3 else turned


def random_rotate(
    src: NDArray, angle_limits: Sequence[float], zoom_in: bool = False, zoom_out: bool = False
) -> NDArray:
    """Return images rotated by random angles between two limits in degrees; see ``imrotate``."""
    least, greatest = angle_limits
    if src.ndim == 3:
        return imrotate(src, np.random.uniform(least, greatest), zoom_in, zoom_out)
    angles = np.random.uniform(least, greatest, size=src.shape[0])
    return imrotate(src, array(angles), zoom_in, zoom_out)


def _grid(size: tuple[int, ...], radians: Any) -> Any:
    """Return the sampling grid, -1 to 1: (batch, 2, height, width)."""
    half_h, half_w = (size[0] - 1) / 2, (size[1] - 1) / 2
    y = (np.arange(size[0], dtype=np.float32) - np.float32(half_h))[None, :, None]
    x = (np.arange(size[1], dtype=np.float32) - np.float32(half_w))[None, None, :]
    cosine, sine = np.cos(radians)[:, None, None], np.sin(radians)[:, None, None]
    across, down = (x * cosine - y * sine) / half_w, (x * sine + y * cosine) / half_h
    return np.stack([across, down], axis=1).astype(np.float32)


def _zoom(size: tuple[int, ...], radians: Any, is_out: bool) -> Any:
    """Return the scale of the grid at which no border (or the whole image) is visible."""
    height, width = size
    corner, length = np.arctan2(height, width), np.hypot(height, width)
    angles = np.abs(radians)
    ends = [np.array([np.cos(corner + s * angles), np.sin(corner + s * angles)]) for s in (1, -1)]
    # How far the corners of the turned image reach; the other two lie opposite to these.
    reach_x, reach_y = np.maximum(*(np.abs(length * end) for end in ends))
    scales = np.array([reach_x / width, reach_y / height])
    factor = scales.max(axis=0) if is_out else (1 / scales).min(axis=0)
    return factor.astype(np.float32)
