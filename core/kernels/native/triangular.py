"""Triangular systems of equations, for stacks of matrices."""

from __future__ import annotations

import ctypes

import numpy as np

from ...types import Array
from .library import library, pointer, threads
from .structures import Systems

__all__ = ["solve_triangular"]

_FLOAT32 = np.dtype("float32")


def solve_triangular(
    triangle: Array, sides: Array, out: Array, *, lower: bool, transpose: bool, rightside: bool
) -> bool:
    """Solve the systems; return False if there is no kernel for them. See
    ``Backend.solve_triangular``."""
    found = library()
    arrays = (triangle, sides, out)
    if found is None or any(one.dtype != _FLOAT32 or not one.size for one in arrays):
        return False
    if not all(one.flags.c_contiguous for one in arrays):
        return False
    size, columns = triangle.shape[-1], sides.shape[-2 if rightside else -1]
    count = triangle.size // size**2
    systems = Systems(count, size, columns, lower, transpose, rightside, threads())
    scratch = np.empty(found.triangular_scratch(systems), _FLOAT32)
    found.triangular_solve(ctypes.byref(systems), *map(pointer, (*arrays, scratch)))
    return True
