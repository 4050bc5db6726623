"""Resizing of uint8 images in C."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref
from typing import Any

import numpy as np

from ...types import Array
from .library import library
from .structures import ImageTaps, Resizing

__all__ = ["resize_bytes"]

_INT = np.dtype("int32")


def resize_bytes(image: Array, taps: Sequence[tuple[Array, Array]]) -> np.ndarray[Any, Any] | None:
    """Resize a uint8 image (height, width, channels); None if the C kernels are not available.

    Args:
        image: may be a crop of another image, whose rows are not contiguous.
        taps: for rows and columns, the two source indices of each new one, and their weights in
            units of 1 / 2048.
    """
    functions = library()
    if functions is None:
        return None
    height, width, channels = image.shape
    if image.strides[1:] != (channels, 1) or image.strides[0] < 0:
        image = np.ascontiguousarray(image)
    near = [np.ascontiguousarray(numbers, _INT) for numbers, _ in taps]
    weights = [np.ascontiguousarray(weight, _INT) for _, weight in taps]
    size = len(near[0]), len(near[1])
    problem = Resizing(height, width, channels, image.strides[0], *size)
    out = np.empty((*size, channels), np.uint8)
    scratch = np.empty(functions.resize_scratch(byref(problem)), _INT)
    down, across = (
        ImageTaps(one.ctypes.data, weight.ctypes.data)
        for one, weight in zip(near, weights, strict=True)
    )
    addresses = [ctypes.c_void_p(one.ctypes.data) for one in (image, scratch, out)]
    functions.resize_images(
        byref(problem), addresses[0], byref(down), byref(across), *addresses[1:]
    )
    return out
