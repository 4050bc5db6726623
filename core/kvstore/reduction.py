"""Sums of the arrays that several devices push."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from core.backends import backend_of
from core.device import Context
from core.ndarray import NDArray
from core.ndarray.sparse_array import RowSparseNDArray

__all__ = ["add_up"]


def add_up(arrays: Sequence[NDArray], context: Context) -> NDArray:
    """Return the sum on a device; one array is returned as it is.

    Row-sparse arrays give a row-sparse sum with the rows of all; any other mixture a dense one.
    """
    if len(arrays) == 1:
        return arrays[0].as_in_context(context)
    rows = [array for array in arrays if isinstance(array, RowSparseNDArray)]
    if len(rows) == len(arrays):
        return _add_rows(rows, context)
    total = arrays[0].tostype("default").as_in_context(context)
    for other in arrays[1:]:
        total += other.tostype("default").as_in_context(context)
    return total


def _add_rows(arrays: Sequence[RowSparseNDArray], context: Context) -> NDArray:
    backend = backend_of(context)
    here = [cast(RowSparseNDArray, array.as_in_context(context)) for array in arrays]
    with backend.scope():
        xp = backend.xp
        parts = [array.indices.data for array in here]
        rows = xp.unique(xp.concatenate(parts))
        shape = (rows.shape[0], *here[0].shape[1:])
        values = xp.zeros(shape, here[0].data.data.dtype)
        for array, part in zip(here, parts, strict=True):
            values[xp.searchsorted(rows, part)] += array.data.data
    return RowSparseNDArray(here[0].shape, values, (rows,), context)
