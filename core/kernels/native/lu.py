"""Inverses and determinants of stacks of matrices."""

from __future__ import annotations

import ctypes

import numpy as np

from ...types import Array
from .library import library, pointer, threads
from .structures import Matrices

__all__ = ["determine", "invert"]

_FLOAT32 = np.dtype("float32")
_FLOAT64 = np.dtype("float64")
_LARGEST = 256
"""Size of the largest matrices; threads share the work on a larger one in LAPACK."""


def invert(matrices: Array, out: Array) -> bool:
    """Write inverses; see ``Backend.invert``."""
    facts, found = _facts(matrices, out), library()
    if facts is None or found is None:
        return False
    scratch = np.empty(found.lu_scratch(facts), _FLOAT32)
    return bool(found.lu_invert(ctypes.byref(facts), *map(pointer, (matrices, out, scratch))))


def determine(matrices: Array) -> tuple[Array, Array] | None:
    """Return signs and logarithms of determinants; see ``Backend.determine``."""
    facts, found = _facts(matrices), library()
    if facts is None or found is None:
        return None
    signs, logarithms = (np.empty(matrices.shape[:-2], _FLOAT64) for _ in range(2))
    scratch = np.empty(found.lu_scratch(facts), _FLOAT32)
    operands = (matrices, signs, logarithms, scratch)
    found.lu_determine(ctypes.byref(facts), *map(pointer, operands))
    return signs, logarithms


def _facts(*arrays: Array) -> Matrices | None:
    """Return the sizes of matrices; None where there is no kernel."""
    size = arrays[0].shape[-1]
    if not 0 < size <= _LARGEST or not arrays[0].size:
        return None
    if not all(one.dtype == _FLOAT32 and one.flags.c_contiguous for one in arrays):
        return None
    return Matrices(arrays[0].size // size**2, size, threads())
