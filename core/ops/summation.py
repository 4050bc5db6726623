"""Sums of float32 that stay exact, however many numbers they add up.

NumPy adds pairwise along contiguous axes only. Along any other axis it adds one row after another
to a running sum, whose rounding errors grow with the number of rows: 4096 rows lose a factor of 40.
Here the rows are added in blocks, and the sums of the blocks in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ..types import Array, Shape, is_floating
from .broadcasting import accumulator
from .operator import Run

__all__ = ["add_up", "average", "sum_to"]

_BLOCK = 16
"""Rows that are added in float32; more would cost digits, fewer time."""
_NARROW = 64
"""Rows of fewer elements are joined, because NumPy takes long for each."""
_FLOAT32, _FLOAT64 = np.dtype("float32"), np.dtype("float64")


def add_up(run: Run, x: Array, axes: int | Sequence[int], out: Array) -> None:
    """Write the sum of ``x`` over axes into ``out``, which lacks them or has them with length 1.

    Half precision is added up in float32, other dtypes than float32 in their own.
    """
    reduced = (axes,) if isinstance(axes, int) else tuple(axes)
    reduced = tuple(sorted(axis % x.ndim for axis in reduced))
    kept = out if out.ndim == x.ndim else run.xp.expand_dims(out, reduced)
    leading, trailing = _parted(x, reduced)
    few = prod(x.shape[axis] for axis in leading) <= _BLOCK
    if few or x.dtype != _FLOAT32 or run.xp is not np:
        wide = accumulator(x.dtype)
        run.xp.sum(x, axis=reduced, dtype=wide, keepdims=True, out=kept)
        return
    if trailing:
        rows = run.scratch(_shape_without(x.shape, trailing), _FLOAT32)
        np.sum(x, axis=trailing, keepdims=True, out=rows)
        x = rows
    np.copyto(kept, _total(run, x, leading), casting="same_kind")


def average(run: Run, x: Array, axes: int | Sequence[int], out: Array) -> None:
    """Write the mean of ``x`` over axes into ``out``; see ``add_up``."""
    if not is_floating(x.dtype):
        reduced = (axes,) if isinstance(axes, int) else tuple(axes)
        run.xp.mean(x, axis=reduced, keepdims=out.ndim == x.ndim, out=out)
        return
    add_up(run, x, axes, out)
    run.xp.divide(out, x.size // out.size if out.size else 1, out=out, casting="unsafe")


def sum_to(run: Run, x: Array, out: Array) -> None:
    """Write into ``out`` the sum of ``x`` over the axes along which ``out`` was broadcast."""
    lead = x.ndim - out.ndim
    target = out.reshape((1,) * lead + out.shape)
    axes = tuple(i for i in range(x.ndim) if target.shape[i] == 1 and x.shape[i] != 1)
    if axes:
        add_up(run, x, axes, target)
    else:
        run.xp.copyto(target, x)


def _parted(x: Array, axes: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes that need blocks, and those at the end that NumPy adds up pairwise."""
    start = x.ndim
    while start and start - 1 in axes and x.flags.c_contiguous:
        start -= 1
    return tuple(i for i in axes if i < start and x.shape[i] > 1), tuple(range(start, x.ndim))


def _shape_without(shape: Shape, axes: tuple[int, ...]) -> Shape:
    return tuple(1 if axis in axes else length for axis, length in enumerate(shape))


def _total(run: Run, x: Array, axes: tuple[int, ...]) -> Array:
    """Return the sum over axes in float64, with length 1 in their place."""
    kept = _shape_without(x.shape, axes)
    last = axes[-1]
    before, rows, after = x.shape[:last], x.shape[last], x.shape[last + 1 :]
    joined = _NARROW // prod(after) if x.flags.c_contiguous and prod(after) else 1
    if joined > 1 and rows >= joined * _BLOCK:
        count, rest = divmod(rows, joined)
        flat = x.reshape(*before, rows, prod(after))
        wide = flat[..., : count * joined, :].reshape(*before, count, joined * prod(after))
        sums = _blocks(run, wide, last)
        total = np.sum(sums, axis=axes, dtype=_FLOAT64)
        total = total.reshape(*total.shape[:-1], joined, prod(after)).sum(axis=-2)
        if rest:
            total += np.sum(flat[..., count * joined :, :], axis=axes, dtype=_FLOAT64)
        return total.reshape(kept)
    sums = _blocks(run, x, last)
    return np.sum(sums, axis=axes, dtype=_FLOAT64).reshape(kept)


def _blocks(run: Run, x: Array, axis: int) -> Array:
    """Return the sums of blocks of rows, in place of the rows."""
    before, rows, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    count, rest = divmod(rows, _BLOCK)
    if not count:
        return x
    sums = run.scratch((*before, count + bool(rest), *after), _FLOAT32)
    head = (slice(None),) * axis
    whole = x[(*head, slice(0, count * _BLOCK))].reshape(*before, count, _BLOCK, *after)
    np.sum(whole, axis=axis + 1, out=sums[(*head, slice(0, count))])
    if rest:
        np.sum(x[(*head, slice(count * _BLOCK, rows))], axis=axis, out=sums[(*head, count)])
    return sums
