"""Broadcast shapes, and the dtype in which sums are kept."""

from __future__ import annotations

import numpy as np

from ..errors import ShapeError
from ..types import DType, Shape, is_half

__all__ = ["accumulator", "infer_broadcast"]


def infer_broadcast(a: Shape | None, b: Shape | None) -> Shape | None:
    """Return what is known of the NumPy broadcast of two shapes (0: unknown dimension).

    Raises:
        ShapeError: two known dimensions differ and neither is 1.
    """
    if a is None or b is None:
        return None
    rank = max(len(a), len(b))
    left, right = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    dims = []
    for x, y in zip(left, right, strict=True):
        if x == 0 or y == 0:
            # An unknown dimension paired with one greater than 1 can only be equal to it or 1.
            dims.append(max(x, y) if max(x, y) > 1 else 0)
        elif x != y and 1 not in (x, y):
            raise ShapeError(f"lhs {a} and rhs {b} do not broadcast; dimensions must be equal or 1")
        else:
            dims.append(y if x == 1 else x)
    return tuple(dims)


def accumulator(dtype: DType) -> DType:
    """Return the dtype in which sums are kept: float32 for half precision, else the same."""
    return np.dtype("float32") if is_half(dtype) else dtype
