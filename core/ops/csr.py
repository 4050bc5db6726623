"""Compressed sparse row (CSR) matrices, as plans pass them from step to step."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ..types import Array, DType, Shape

__all__ = ["Csr", "Pattern", "sum_segments"]

_INT64 = np.dtype("int64")


class Pattern:
    """The sparsity pattern of a matrix. What is derived from it is computed once for all matrices
    that share it.

    Args:
        xp: numpy or cupy.
        indptr: the offset of each row among the stored values, int64 (rows + 1,).
        columns: the column of each stored value, int64.
    """

    def __init__(self, xp: Any, indptr: Array, columns: Array) -> None:
        self.xp = xp
        self.indptr = indptr
        self.columns = columns

    @cached_property
    def rows(self) -> Array:
        """The row of each stored value."""
        count = self.columns.shape[0]
        # Each row adds 1 where its values begin, so the running sum is the row's number; empty rows
        # add theirs at the same offset, those at the end beyond the last value.
        begins = self.xp.bincount(self.indptr[1:-1], minlength=count + 1)[:count]
        return self.xp.cumsum(begins)

    @cached_property
    def by_column(self) -> tuple[Array, Array, Array]:
        """The pattern in column-major order (CSC): the columns that have a value, ascending; the
        offset of each; and the permutation that sorts the values by column, then by row."""
        xp, count = self.xp, self.columns.shape[0]
        shift = max(count - 1, 1).bit_length()
        # Sorting distinct keys is many times as fast as a stable argsort of the columns.
        keys = xp.sort((self.columns << shift) | xp.arange(count))
        order, ordered = keys & ((1 << shift) - 1), keys >> shift
        is_first = xp.ones(count, bool)
        is_first[1:] = ordered[1:] != ordered[:-1]
        starts = xp.flatnonzero(is_first)
        return ordered[starts], starts, order

    @cached_property
    def places(self) -> Array:
        """For each stored value, the position of its column among those that have a value."""
        _, starts, order = self.by_column
        begins = self.xp.zeros(order.shape, _INT64)
        begins[starts[1:]] = 1
        places = self.xp.empty(order.shape, _INT64)
        places[order] = self.xp.cumsum(begins)
        return places


class Csr:
    """A CSR matrix. It replaces an array among the inputs and outputs of a ``SparseKernel``.

    Attributes:
        shape, dtype: those of the whole matrix.
        pattern: the positions of the stored values.
        data: the stored values.
    """

    __slots__ = ("data", "dtype", "pattern", "shape")

    pattern: Pattern
    data: Array

    def __init__(self, shape: Shape, dtype: DType) -> None:
        self.shape = shape
        self.dtype = dtype

    def keep(self, pattern: Pattern, data: Array) -> None:
        """Set the stored values without a copy."""
        self.pattern, self.data = pattern, data

    def share(self, other: Any) -> None:
        """Refer to the same values as another matrix."""
        self.keep(other.pattern, other.data)

    def dense(self, xp: Any) -> Array:
        """Return the dense matrix; duplicate entries are summed."""
        whole = xp.zeros(self.shape, self.dtype)
        xp.add.at(whole, (self.pattern.rows, self.pattern.columns), self.data)
        return whole

    def times(self, dense: Array, out: Array) -> None:
        """Write the product with a dense matrix (columns, n)."""
        self.add_up_rows(dense[self.pattern.columns], out)

    def add_up_rows(self, terms: Array, out: Array) -> None:
        """Write for each row the sum of its stored values, each multiplied by its own row of
        ``terms`` (values, n)."""
        indptr, xp = self.pattern.indptr, self.pattern.xp
        terms *= self.data[:, None]
        # For an empty segment, reduceat returns the element at its start instead of 0.
        has_any = indptr[1:] > indptr[:-1]
        if has_any.all():
            sum_segments(xp, terms, indptr[:-1], out)
            return
        out[...] = 0
        out[has_any] = sum_segments(xp, terms, indptr[:-1][has_any])

    def transposed_times(self, dense: Array) -> tuple[Array, Array]:
        """Return the nonzero rows of the product of the transposed matrix with a dense one
        (rows, n): their indices and values."""
        columns, starts, order = self.pattern.by_column
        terms = dense[self.pattern.rows[order]]
        terms *= self.data[order][:, None]
        return columns, sum_segments(self.pattern.xp, terms, starts)


def sum_segments(xp: Any, values: Array, starts: Array, out: Array | None = None) -> Array:
    """Return the sums of consecutive segments of rows, given the ascending start of each."""
    if out is None:
        out = xp.empty((starts.shape[0], *values.shape[1:]), values.dtype)
    if not starts.shape[0]:
        return out
    if xp is np:
        np.add.reduceat(values, starts, axis=0, out=out)
        return out
    # CuPy has no reduceat.
    marks = xp.zeros(values.shape[0], _INT64)
    marks[starts[1:]] = 1
    out[...] = 0
    xp.add.at(out, xp.cumsum(marks), values)
    return out
