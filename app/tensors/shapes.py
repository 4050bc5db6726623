"""Checks of untrusted shapes; NumPy itself fails badly on some of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["MOST_AXES", "shape_fault"]

MOST_AXES = 32
"""Supported by every NumPy version that we support."""

_LARGEST_ARRAY = 2**63 - 1


def shape_fault(shape: Sequence[Any], dtype: np.dtype[Any]) -> str | None:
    """Return what a shape should be instead, None if an array can have it.

    A zero-sized axis does not excuse the others: NumPy computes strides from all of them.
    """
    if any(type(size) is not int or size < 0 for size in shape):
        return "sizes of at least 0"
    if len(shape) > MOST_AXES:
        return f"at most {MOST_AXES} axes"
    if math.prod(max(size, 1) for size in shape) * dtype.itemsize > _LARGEST_ARRAY:
        return f"fewer than 2**63 bytes of {dtype}"
    return None
