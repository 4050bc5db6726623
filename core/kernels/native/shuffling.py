"""Shuffling of vectors."""

from __future__ import annotations

import numpy as np

from ...types import Array
from .library import library, pointer

__all__ = ["shuffle"]

_WIDTHS = (1, 2, 4, 8)
_MOST = 1 << 32
"""Elements that random numbers of 32 bits can tell apart."""


def shuffle(vector: Array, seed: int) -> bool:
    """Shuffle a vector in place, if there is a kernel for it; see ``Backend.shuffle``."""
    found = library()
    if found is None or vector.itemsize not in _WIDTHS or vector.size >= _MOST:
        return False
    if vector.ndim != 1 or not vector.flags.c_contiguous:
        return False
    state = np.ascontiguousarray(np.random.SFC64(seed).state["state"]["state"], np.uint64)
    found.shuffle(vector.size, vector.itemsize, pointer(state), pointer(vector))
    return True
