"""Sums of the arrays that several devices push."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ..device import Context
from ..ndarray import NDArray
from ..ndarray.sparse_array import RowSparseNDArray, add_row_sparse

__all__ = ["add_up"]


def add_up(arrays: Sequence[NDArray], context: Context) -> NDArray:
    """Return the sum on a device; one array is returned as it is.

    Row-sparse arrays give a row-sparse sum with the rows of all; any other mixture a dense one.
    """
    if len(arrays) == 1:
        return arrays[0].as_in_context(context)
    rows = [array for array in arrays if isinstance(array, RowSparseNDArray)]
    if len(rows) == len(arrays):
        return add_row_sparse([cast(RowSparseNDArray, row.as_in_context(context)) for row in rows])
    # ``tostype`` copies, so that adding to the total leaves the pushed array as it is.
    total = arrays[0].tostype("default").as_in_context(context)
    for other in arrays[1:]:
        total += other.tostype("default").as_in_context(context)
    return total
