"""``mx.nd.sparse``: making sparse arrays, and the operators named ``_sparse_``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends import backend_of
from ..device import Context, current_context
from ..ops.namespace import OperatorNamespace
from ..types import Array, DType, Shape, to_dtype
from . import creation
from .array import NDArray
from .binary import add, divide, multiply, subtract
from .casting import cast_storage
from .functions import make_function
from .scipy_matrix import csr_from_scipy
from .sparse_array import (
    BaseSparseNDArray,
    CSRNDArray,
    RowSparseNDArray,
    sparse_zeros,
)

__all__ = [
    "BaseSparseNDArray",
    "CSRNDArray",
    "RowSparseNDArray",
    "add",
    "array",
    "cast_storage",
    "csr_matrix",
    "divide",
    "empty",
    "multiply",
    "retain",
    "row_sparse_array",
    "subtract",
    "zeros",
]

_INT64 = np.dtype(np.int64)


def csr_matrix(
    arg1: Any,
    shape: Shape | None = None,
    ctx: Context | None = None,
    dtype: Any = None,
) -> CSRNDArray:
    """Return a ``CSRNDArray``; whether indices given fit is for ``check_format`` to tell.

    Args:
        arg1: (data, indices, indptr); (data, (row, column)); a shape; a CSRNDArray; a dense array
            or nested list; or a SciPy csr matrix.
        shape: shape of the matrix, by default what the indices need.
        ctx: device, by default the current context.
        dtype: element type, by default that of the data, float32 for lists.
    """
    if isinstance(arg1, RowSparseNDArray):
        raise ValueError("Unexpected input type: RowSparseNDArray")
    if _is_scipy(arg1):
        return csr_from_scipy(arg1.tocsr(), ctx, dtype)
    if isinstance(arg1, tuple) and len(arg1) == 3:
        return _csr_from_parts(*arg1, shape, ctx, dtype)
    if isinstance(arg1, tuple) and len(arg1) == 2 and isinstance(arg1[1], tuple):
        data, (row, column) = arg1
        return _csr_from_coordinates(data, row, column, shape, ctx, dtype)
    result = _from_other(arg1, "csr", shape, ctx, dtype)
    assert isinstance(result, CSRNDArray)
    return result


def row_sparse_array(
    arg1: Any,
    shape: Shape | None = None,
    ctx: Context | None = None,
    dtype: Any = None,
) -> RowSparseNDArray:
    """Return a ``RowSparseNDArray``; whether indices given fit is for ``check_format`` to tell.

    Args:
        arg1: (data, row indices); a shape; a RowSparseNDArray; or a dense array or nested list.
        shape: shape of the array, by default what the indices need.
        ctx: device, by default the current context.
        dtype: element type, by default that of the data, float32 for lists.
    """
    if isinstance(arg1, CSRNDArray):
        raise ValueError("Unexpected input type: CSRNDArray")
    is_shape = isinstance(arg1, tuple) and all(isinstance(dim, (int, np.integer)) for dim in arg1)
    if isinstance(arg1, tuple) and not is_shape:
        if len(arg1) != 2:
            raise ValueError(f"Unexpected length of input tuple: {len(arg1)}")
        return _rows_from_parts(*arg1, shape, ctx, dtype)
    result = _from_other(arg1, "row_sparse", shape, ctx, dtype)
    assert isinstance(result, RowSparseNDArray)
    return result


def zeros(stype: str, shape: Any, ctx: Context | None = None, dtype: Any = None) -> NDArray:
    """Return an array of a storage type with nothing stored."""
    if stype == "default":
        return creation.zeros(shape, ctx, dtype)
    return sparse_zeros(stype, shape, ctx, dtype)


empty = zeros


def array(source_array: Any, ctx: Context | None = None, dtype: Any = None) -> BaseSparseNDArray:
    """Return a copy of a sparse array or SciPy csr matrix."""
    if _is_scipy(source_array):
        return csr_matrix(source_array, None, ctx, dtype)
    if not isinstance(source_array, BaseSparseNDArray):
        raise ValueError(
            f"sparse.array takes a sparse array, got {type(source_array).__name__}; use "
            "tostype('row_sparse') or tostype('csr') on a dense one"
        )
    result = creation.array(source_array, ctx, dtype)
    assert isinstance(result, BaseSparseNDArray)
    return result


def retain(data: RowSparseNDArray, indices: NDArray) -> RowSparseNDArray:
    """Return a row_sparse array with only the given rows."""
    return data.retain(indices)


def _is_scipy(value: Any) -> bool:
    return type(value).__module__.startswith("scipy.sparse")


def _from_other(
    value: Any, stype: str, shape: Shape | None, ctx: Context | None, dtype: Any
) -> NDArray:
    if isinstance(value, tuple):
        _check_shape(value, shape)
        return sparse_zeros(stype, value, ctx, dtype)
    if isinstance(value, (NDArray, np.ndarray)) and dtype is None:
        dtype = value.dtype
    dense = creation.array(value, ctx, dtype)
    _check_shape(dense.shape, shape)
    return dense if dense.stype == stype else dense.tostype(stype)


def _csr_from_coordinates(
    data: Any, row: Any, column: Any, shape: Shape | None, ctx: Context | None, dtype: Any
) -> CSRNDArray:
    """Sort the values by row and column; those of one place add up."""
    kind = _kind_of(data, dtype)
    values = np.asarray(data, dtype=kind)
    rows, columns = np.asarray(row, dtype=np.int64), np.asarray(column, dtype=np.int64)
    if shape is None:
        shape = int(rows.max()) + 1, int(columns.max()) + 1
    places, where = np.unique(rows * shape[1] + columns, return_inverse=True)
    sums = np.zeros(places.size, kind)
    np.add.at(sums, where, values)
    counts = np.bincount(places // shape[1], minlength=shape[0])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return _csr_from_parts(sums, places % shape[1], indptr, shape, ctx, kind)


def _csr_from_parts(
    data: Any, indices: Any, indptr: Any, shape: Shape | None, ctx: Context | None, dtype: Any
) -> CSRNDArray:
    context = ctx or current_context()
    values = _raw(data, _kind_of(data, dtype), context)
    columns, pointers = _raw(indices, _INT64, context), _raw(indptr, _INT64, context)
    if shape is None:
        if columns.size == 0:
            raise ValueError("invalid shape: give shape= for a matrix without values")
        shape = len(pointers) - 1, int(columns.max()) + 1
    if (values.ndim, columns.ndim, pointers.ndim, len(shape)) != (1, 1, 1, 2):
        raise ValueError(
            f"invalid shape: data {values.shape}, indices {columns.shape}, indptr "
            f"{pointers.shape}; expected three vectors, and a shape of two lengths, got {shape}"
        )
    return CSRNDArray(shape, values, (pointers, columns), context)


def _rows_from_parts(
    data: Any, indices: Any, shape: Shape | None, ctx: Context | None, dtype: Any
) -> RowSparseNDArray:
    context = ctx or current_context()
    values = _raw(data, _kind_of(data, dtype), context)
    rows = _raw(indices, _INT64, context)
    if shape is None:
        if rows.size == 0:
            raise ValueError("invalid shape: give shape= for an array without rows")
        shape = (int(rows[-1]) + 1, *values.shape[1:])
    if values.ndim != len(shape) or rows.ndim != 1:
        raise ValueError(f"invalid shape: data {values.shape}, indices {rows.shape}, got {shape}")
    return RowSparseNDArray(shape, values, (rows,), context)


def _kind_of(data: Any, dtype: Any) -> DType:
    if dtype is None:
        dtype = data.dtype if isinstance(data, (NDArray, np.ndarray)) else "float32"
    return to_dtype(dtype)


def _raw(value: Any, dtype: DType, context: Context) -> Array:
    return backend_of(context).asarray(np.array(value, dtype=dtype))


def _check_shape(found: Shape, given: Shape | None) -> None:
    if given is not None and tuple(given) != tuple(found):
        raise ValueError(f"Shape mismatch detected. {found} v.s. {given}")


_operators = OperatorNamespace(__name__, "_sparse_", make_function)
__getattr__, __dir__ = _operators.get, _operators.names
