"""Gradients of which only some rows are kept: memory for the rows that a batch names, no more."""

from __future__ import annotations

from typing import Any

from ..types import Array, DType, Shape, shape_size

__all__ = ["Rows", "sum_rows"]


class Rows:
    """The rows of a gradient that are not zero; ``backward`` adds to them.

    It stands in the place of an array in ``in_grads``, for the inputs that
    ``Operator.row_gradients`` names.

    Attributes:
        shape, dtype: of the whole gradient.
        indices: int64 numbers of the rows, ascending; None where there are none yet.
        values: the rows, (indices, *shape[1:]).
    """

    __slots__ = ("dtype", "indices", "shape", "values")

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

    def dense(self, xp: Any) -> Array:
        """Return the whole gradient, with zeros in all other rows."""
        whole = xp.zeros(self.shape, self.dtype)
        if self.indices is not None:
            whole[self.indices] = self.values
        return whole

    def add(self, xp: Any, indices: Array, values: Array) -> None:
        """Add values (n, *shape[1:]) to rows, whose int64 numbers (n,) may repeat."""
        if self.indices is not None:
            indices = xp.concatenate([self.indices, indices])
            values = xp.concatenate([self.values, values])
        self.keep(*sum_rows(xp, indices, values, self.dtype))


def sum_rows(xp: Any, indices: Array, values: Array, dtype: DType) -> tuple[Array, Array]:
    """Return the different indices (n,), ascending, and for each the sum of its values (n, ...)."""
    rows, places = xp.unique(indices, return_inverse=True)
    sums = xp.zeros((rows.shape[0], *values.shape[1:]), dtype)
    width = shape_size(values.shape[1:])
    positions = places.reshape(-1, 1) * width + xp.arange(width)
    # Flat, because both libraries add single elements much faster than rows.
    xp.add.at(sums.reshape(-1), positions.reshape(-1), values.reshape(-1))
    return rows, sums
