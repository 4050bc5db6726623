"""Branch-free selection of elements by a mask.

NumPy branches on each element; with a random mask, branch mispredictions make it ten times slower.
Bitwise operations avoid the branches.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..types import Array
from .operator import Run

__all__ = ["choose", "keep"]

_PIECE = 1 << 15
"""Elements processed at a time, so that temporaries stay in the cache."""


def choose(run: Run, mask: Array, x: Array, y: Array, out: Array) -> None:
    """Write ``x`` where the mask (bool) is True, else ``y``, which ``out`` may be."""
    if run.xp is not np or not _are_alike(mask, x, y, out):
        run.xp.copyto(out, y)
        run.xp.copyto(out, x, where=mask)
        return
    bits = f"int{8 * out.itemsize}"
    flat_x, flat_y, flat_out = (one.reshape(-1).view(bits) for one in (x, y, out))
    chosen, differing = (run.scratch((min(out.size, _PIECE),), bits) for _ in range(2))
    for start, ones in _pieces(mask, chosen):
        part = slice(start, start + ones.size)
        # ((x ^ y) & mask) ^ y is x where all bits of the mask are set, and y where none is.
        change = differing[: ones.size]
        np.bitwise_xor(flat_x[part], flat_y[part], out=change)
        np.bitwise_and(change, ones, out=change)
        np.bitwise_xor(change, flat_y[part], out=flat_out[part])


def keep(run: Run, mask: Array, x: Array, out: Array) -> None:
    """Write ``x`` where the mask (bool) is True, else 0."""
    if run.xp is not np or not _are_alike(mask, x, out):
        out.fill(0)
        run.xp.copyto(out, x, where=mask)
        return
    bits = f"int{8 * out.itemsize}"
    flat_x, flat_out = x.reshape(-1).view(bits), out.reshape(-1).view(bits)
    for start, ones in _pieces(mask, run.scratch((min(out.size, _PIECE),), bits)):
        part = slice(start, start + ones.size)
        np.bitwise_and(flat_x[part], ones, out=flat_out[part])


def _are_alike(mask: Array, *arrays: Array) -> bool:
    """Return whether all arrays are contiguous, of one shape and dtype, so that flat views
    match."""
    first = arrays[0]
    return mask.flags.c_contiguous and all(
        one.shape == mask.shape and one.dtype == first.dtype and one.flags.c_contiguous
        for one in arrays
    )


def _pieces(mask: Array, memory: Array) -> Iterator[tuple[int, Array]]:
    """Yield pieces of the mask: the offset, and integers with all bits set where the mask is
    True."""
    flat = mask.reshape(-1).view("int8")
    for start in range(0, flat.size, memory.size or 1):
        piece = flat[start : start + memory.size]
        ones = memory[: piece.size]
        np.negative(piece, out=ones, dtype=ones.dtype)  # -1 is the integer with all bits set
        yield start, ones
