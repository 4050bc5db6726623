"""Positions given by index arrays, and reading, adding and writing elements at them.

As in MXNet, index arrays may have any dtype; they are truncated to integers first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import OutOfRange
from ..types import Array, Shape, shape_size
from .operator import Run

__all__ = [
    "add_at",
    "add_rows",
    "axis_positions",
    "check_range",
    "read_at",
    "row_positions",
    "whole_indices",
    "write_at",
    "write_rows",
]

_FEWEST_SHARE = 8
"""If fewer than one in so many of the remaining rows is a first occurrence, the rest is left to
``add.at``, because one vectorized pass for each repetition would take longer."""


def whole_indices(run: Run, indices: Array, size: int, mode: str) -> Array:
    """Return int64 indices that are valid for an axis of this size.

    Indices out of range are clipped (``clip``), wrapped around (``wrap``) or an error (``raise``).
    """
    whole = run.scratch(indices.shape, "int64")
    run.xp.copyto(whole, indices, casting="unsafe")
    if mode == "clip":
        run.xp.clip(whole, 0, size - 1, out=whole)
    elif mode == "wrap":
        run.xp.mod(whole, size, out=whole)
    else:
        check_range(whole, 0, size)
    return whole


def check_range(indices: Array, low: int, high: int) -> None:
    """Raise OutOfRange unless all indices lie in [low, high)."""
    if indices.size == 0:
        return
    smallest, largest = int(indices.min()), int(indices.max())
    if smallest < low or largest >= high:
        wrong = smallest if smallest < low else largest
        raise OutOfRange(
            f"index {wrong} is outside an axis of size {high}; expected {low} to {high - 1}"
        )


def axis_positions(run: Run, indices: Array, shape: Shape, axis: int) -> Array:
    """Return the flat positions of the elements ``[..., indices, ...]`` of an array of this shape.

    ``indices`` has the dimensions before the axis, then any number in place of the axis, then those
    after it; those of the array are full or 1.
    """
    lead, tail = axis, len(shape) - axis - 1
    own = indices.shape[lead : indices.ndim - tail]
    full = (*shape[:axis], *own, *shape[axis + 1 :])
    positions = run.scratch(full, "int64")
    run.xp.copyto(positions, indices)
    positions *= shape_size(shape[axis + 1 :])
    for i, dim in enumerate(shape):
        if i == axis or dim == 1:
            continue
        place = i if i < axis else i - len(shape) + len(full)
        steps = run.xp.arange(dim) * shape_size(shape[i + 1 :])
        positions += steps.reshape((1,) * place + (dim,) + (1,) * (len(full) - place - 1))
    return positions


def row_positions(run: Run, indices: Array, shape: Sequence[int]) -> Array:
    """Return the row that each column of ``indices`` selects in an array whose first m axes are
    joined.

    ``indices`` is (m, ...), with one index for each of the m axes. Negative indices count from the
    end.

    Raises:
        OutOfRange: an index is out of range for its axis.
    """
    rows = run.scratch(indices.shape[1:], "int64")
    rows.fill(0)
    one = run.scratch(indices.shape[1:], "int64")
    for index, size in zip(indices, shape, strict=False):
        run.xp.copyto(one, index, casting="unsafe")
        check_range(one, -size, size)
        run.xp.mod(one, size, out=one)
        rows *= size
        rows += one
    return rows


def read_at(run: Run, source: Array, positions: Array, out: Array) -> None:
    """Write ``source[positions]`` (elements, or rows of a matrix) into ``out``."""
    # With its default mode, NumPy's ``take`` buffers the output so as to check the range first.
    options: dict[str, Any] = {"mode": "clip"} if run.xp is np else {}
    run.xp.take(source, positions, axis=0, out=out, **options)


def add_at(run: Run, target: Array, positions: Array, values: Array) -> None:
    """Set each element of ``target`` to the sum of the values at its flat position, 0 without
    any."""
    flat = _zeroed(run, target)
    run.xp.add.at(flat, positions.reshape(-1), values.reshape(-1))
    _hand_back(run, flat, target)


def add_rows(run: Run, target: Array, table: Shape, rows: Array, values: Array) -> None:
    """Set each row of ``target`` to the sum of the values for it, 0 without any.

    ``table`` is its shape as a matrix; ``values`` has as many elements for each of ``rows``.
    """
    xp, count = run.xp, rows.size
    flat = _zeroed(run, target)
    matrix = flat.reshape(table)
    rows, values = rows.reshape(-1), values.reshape(count, table[1])
    first_of = run.scratch(table[:1], "int64")
    left = xp.arange(count)
    # Indexed addition needs distinct rows: add the first occurrence of each row, then the first of
    # the rest, and so on.
    while left.size:
        numbers = rows[left]
        # Of equal targets the last assignment stays, which is the first occurrence. Scratch memory
        # need not be cleared: only what was just written is read.
        first_of[numbers[::-1]] = left[::-1]
        is_first = first_of[numbers] == left
        chosen = left[is_first]
        if chosen.size * _FEWEST_SHARE < left.size:
            break
        numbers = numbers[is_first]
        part, so_far = (run.scratch((chosen.size, table[1]), values.dtype) for _ in range(2))
        read_at(run, values, chosen, part)
        if left.size < count:
            read_at(run, matrix, numbers, so_far)
            xp.add(so_far, part, out=part)
        matrix[numbers] = part
        left = left[~is_first]
    if left.size:
        positions = axis_positions(run, rows[left][:, None], table, 0)
        xp.add.at(flat, positions.reshape(-1), values[left].reshape(-1))
    _hand_back(run, flat, target)


def write_rows(run: Run, target: Array, table: Shape, rows: Array, values: Array) -> None:
    """Write values into rows of ``target``, and 0 elsewhere; see ``add_rows``."""
    flat = _zeroed(run, target)
    flat.reshape(table)[rows.reshape(-1)] = values.reshape(rows.size, table[1])
    _hand_back(run, flat, target)


def write_at(run: Run, target: Array, positions: Array, values: Array) -> None:
    """Write values to flat positions in ``target``, and 0 elsewhere."""
    flat = _zeroed(run, target)
    flat[positions.reshape(-1)] = values.reshape(-1)
    _hand_back(run, flat, target)


def _zeroed(run: Run, target: Array) -> Array:
    """Return the target's memory as a vector of zeros, or scratch memory if it is not
    contiguous."""
    contiguous = target.flags.c_contiguous
    flat = target.reshape(-1) if contiguous else run.scratch((target.size,), target.dtype)
    flat.fill(0)
    return flat


def _hand_back(run: Run, flat: Array, target: Array) -> None:
    if not target.flags.c_contiguous:
        run.xp.copyto(target, flat.reshape(target.shape))
