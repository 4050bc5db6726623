"""Row-sparse arrays: memory only for rows that are used, such as those a batch refers to."""

from __future__ import annotations

from typing import Any

from ..types import Array, DType, Shape, shape_size

__all__ = ["Rows", "distinct", "sum_rows"]


class Rows:
    """The nonzero rows of an array.

    It replaces an array in ``in_grads``, where ``backward`` adds to it, for the inputs in
    ``Operator.row_gradients``; and among the inputs and outputs of a ``SparseKernel``.

    Attributes:
        shape, dtype: those of the whole array.
        indices: indices of the rows, int64 and ascending; None if there are none yet.
        values: the rows, of shape ``(len(indices), *shape[1:])``.
    """

    __slots__ = ("dtype", "indices", "shape", "values")

    indices: Array
    values: Array

    def __init__(self, shape: Shape, dtype: DType) -> None:
        self.shape = shape
        self.dtype = dtype
        self.clear()

    def clear(self) -> None:
        """Remove all rows."""
        self.keep(None, None)

    def keep(self, indices: Array | None, values: Array | None) -> None:
        """Set the rows without a copy; the indices must be ascending."""
        self.indices, self.values = indices, values

    def share(self, other: Any) -> None:
        """Refer to the same rows as another container."""
        self.keep(other.indices, other.values)

    def dense(self, xp: Any) -> Array:
        """Return the whole array, with zeros in all rows that are not stored."""
        whole = xp.zeros(self.shape, self.dtype)
        if self.indices is not None:
            whole[self.indices] = self.values
        return whole

    def read(self, xp: Any, wanted: Array) -> Array:
        """Return a copy of the rows with these int64 indices; zeros for rows not stored."""
        indices, values = self.indices, self.values
        if indices is None or not indices.shape[0]:
            return xp.zeros((*wanted.shape, *self.shape[1:]), self.dtype)
        if indices.shape[0] == self.shape[0]:
            return values[wanted]
        places = xp.minimum(xp.searchsorted(indices, wanted), indices.shape[0] - 1)
        is_missing = indices[places] != wanted
        found = values[places]
        if is_missing.any():
            found[is_missing] = 0
        return found

    def add_ordered(self, xp: Any, indices: Array, values: Array) -> None:
        """Add values (n, *shape[1:]) to rows in ascending order; both arrays may be kept."""
        if self.indices is None:
            self.keep(indices, values)
        elif self.indices.shape == indices.shape and bool((self.indices == indices).all()):
            self.keep(indices, self.values + values)
        else:
            self.add(xp, indices, values)

    def add(self, xp: Any, indices: Array, values: Array) -> None:
        """Add values (n, *shape[1:]) to rows, whose int64 indices (n,) may contain duplicates."""
        if self.indices is not None:
            indices = xp.concatenate([self.indices, indices])
            values = xp.concatenate([self.values, values])
        self.keep(*sum_rows(xp, indices, values, self.dtype))


def distinct(xp: Any, indices: Array) -> Array:
    """Return the distinct values of a vector, ascending; faster than ``unique``, which hashes."""
    ordered = xp.sort(indices)
    is_first = xp.ones(ordered.shape, bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]


def sum_rows(xp: Any, indices: Array, values: Array, dtype: DType) -> tuple[Array, Array]:
    """Return the distinct indices (n,), ascending, and the sum of the values of each (n, ...)."""
    rows, places = xp.unique(indices, return_inverse=True)
    sums = xp.zeros((rows.shape[0], *values.shape[1:]), dtype)
    width = shape_size(values.shape[1:])
    positions = places.reshape(-1, 1) * width + xp.arange(width)
    # Flat, because both libraries add single elements much faster than rows.
    xp.add.at(sums.reshape(-1), positions.reshape(-1), values.reshape(-1))
    return rows, sums
