"""Shapes that strangers send: checked before NumPy, which fails on some, is asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["MOST_AXES", "shape_fault"]

MOST_AXES = 32
"""What every supported NumPy can hold."""

_LARGEST_ARRAY = 2**63 - 1


def shape_fault(shape: Sequence[Any], dtype: np.dtype[Any]) -> str | None:
    """Return what a shape should have instead, None if an array can have it.

    Axes without elements do not excuse the others: NumPy computes strides from all of them.
    """
    if any(type(size) is not int or size < 0 for size in shape):
        return "sizes of at least 0"
    if len(shape) > MOST_AXES:
        return f"at most {MOST_AXES} axes"
    if math.prod(max(size, 1) for size in shape) * dtype.itemsize > _LARGEST_ARRAY:
        return f"fewer than 2**63 bytes of {dtype}"
    return None
