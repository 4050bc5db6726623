"""Arrays of which only some rows are kept: memory for the rows that a batch names, no more."""

from __future__ import annotations

from typing import Any

from ..types import Array, DType, Shape, shape_size

__all__ = ["Rows", "distinct", "sum_rows"]


class Rows:
    """The rows of an array that are not zero.

    It stands in the place of an array in ``in_grads``, where ``backward`` adds to it, for the
    inputs that ``Operator.row_gradients`` names; and among the inputs and outputs that a
    ``SparseKernel`` takes as they are stored.

    Attributes:
        shape, dtype: of the whole array.
        indices: int64 numbers of the rows, ascending; None where there are none yet.
        values: the rows, (indices, *shape[1:]).
    """

    __slots__ = ("dtype", "indices", "shape", "values")

    indices: Array
    values: Array

    def __init__(self, shape: Shape, dtype: DType) -> None:
        self.shape = shape
        self.dtype = dtype
        self.clear()

    def clear(self) -> None:
        """Forget all rows."""
        self.keep(None, None)

    def keep(self, indices: Array | None, values: Array | None) -> None:
        """Take over rows as they are; the indices ascend."""
        self.indices, self.values = indices, values

    def share(self, other: Any) -> None:
        """Keep what other rows keep."""
        self.keep(other.indices, other.values)

    def dense(self, xp: Any) -> Array:
        """Return the whole array, with zeros in all other rows."""
        whole = xp.zeros(self.shape, self.dtype)
        if self.indices is not None:
            whole[self.indices] = self.values
        return whole

    def read(self, xp: Any, wanted: Array) -> Array:
        """Return a copy of the rows that an array of int64 numbers, zeros where none is kept."""
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
        """Add values (n, *shape[1:]) to rows that ascend; both arrays are taken over."""
        if self.indices is None:
            self.keep(indices, values)
        elif self.indices.shape == indices.shape and bool((self.indices == indices).all()):
            self.keep(indices, self.values + values)
        else:
            self.add(xp, indices, values)

    def add(self, xp: Any, indices: Array, values: Array) -> None:
        """Add values (n, *shape[1:]) to rows, whose int64 numbers (n,) may repeat."""
        if self.indices is not None:
            indices = xp.concatenate([self.indices, indices])
            values = xp.concatenate([self.values, values])
        self.keep(*sum_rows(xp, indices, values, self.dtype))


def distinct(xp: Any, indices: Array) -> Array:
    """Return the different numbers of a vector, ascending; faster than ``unique``, which hashes."""
    ordered = xp.sort(indices)
    is_first = xp.ones(ordered.shape, bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]


def sum_rows(xp: Any, indices: Array, values: Array, dtype: DType) -> tuple[Array, Array]:
    """Return the different indices (n,), ascending, and for each the sum of its values (n, ...)."""
    rows, places = xp.unique(indices, return_inverse=True)
    sums = xp.zeros((rows.shape[0], *values.shape[1:]), dtype)
    width = shape_size(values.shape[1:])
    positions = places.reshape(-1, 1) * width + xp.arange(width)
    # Flat, because both libraries add single elements much faster than rows.
    xp.add.at(sums.reshape(-1), positions.reshape(-1), values.reshape(-1))
    return rows, sums
