"""Positions from index arrays: reading, adding and writing elements where data says so.

Indices come as arrays of any dtype, as in MXNet; they are cut to whole numbers first.
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
"""Where fewer than one in so many rows differ from those before, they are added one by one."""


def whole_indices(run: Run, indices: Array, size: int, mode: str) -> Array:
    """Return int64 indices within an axis of a size.

    ``clip`` moves those outside to the nearest end, ``wrap`` counts around, ``raise`` refuses them.
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
    """Return flat positions of the elements ``[..., indices, ...]`` of an array of a shape.

    ``indices`` has the dimensions before the axis, any of its own or none, and those after it, each
    full or 1.
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
    """Return which row of an array, its first axes joined, each column of ``indices`` names.

    ``indices`` is (m, ...): its first axis has one index for each of the first m axes. Negative
    ones count from the end.

    Raises:
        OutOfRange: an index lies outside its axis.
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
    # NumPy takes straight into the output only where it need not check the range.
    options: dict[str, Any] = {"mode": "clip"} if run.xp is np else {}
    run.xp.take(source, positions, axis=0, out=out, **options)


def add_at(run: Run, target: Array, positions: Array, values: Array) -> None:
    """Write the sums of the values that go to each flat position into ``target``, else 0."""
    flat = _zeroed(run, target)
    run.xp.add.at(flat, positions.reshape(-1), values.reshape(-1))
    _hand_back(run, flat, target)


def add_rows(run: Run, target: Array, table: Shape, rows: Array, values: Array) -> None:
    """Write the sums of the values that go to each row of ``target``, else 0.

    ``table`` is its shape as a matrix; ``values`` has as many elements for each of ``rows``.
    """
    xp, count = run.xp, rows.size
    flat = _zeroed(run, target)
    matrix = flat.reshape(table)
    rows, values = rows.reshape(-1), values.reshape(count, table[1])
    first_of = run.scratch(table[:1], "int64")
    left = xp.arange(count)
    # Rows that differ are added at once: the first of each, then the first of those left.
    while left.size:
        numbers = rows[left]
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
    """Write the values to rows of ``target``, and 0 elsewhere; see ``add_rows``."""
    flat = _zeroed(run, target)
    flat.reshape(table)[rows.reshape(-1)] = values.reshape(rows.size, table[1])
    _hand_back(run, flat, target)


def write_at(run: Run, target: Array, positions: Array, values: Array) -> None:
    """Write the values to their flat positions in ``target``, and 0 elsewhere."""
    flat = _zeroed(run, target)
    flat[positions.reshape(-1)] = values.reshape(-1)
    _hand_back(run, flat, target)


def _zeroed(run: Run, target: Array) -> Array:
    """Return the target's memory as a vector of zeros, or scratch where its memory has gaps."""
    contiguous = target.flags.c_contiguous
    flat = target.reshape(-1) if contiguous else run.scratch((target.size,), target.dtype)
    flat.fill(0)
    return flat


def _hand_back(run: Run, flat: Array, target: Array) -> None:
    if not target.flags.c_contiguous:
        run.xp.copyto(target, flat.reshape(target.shape))
