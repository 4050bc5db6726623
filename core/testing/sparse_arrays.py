"""Random sparse arrays."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..device import Context
from ..ndarray import CSRNDArray, RowSparseNDArray, array, sparse
from ..types import Array, Shape
from .random_arrays import assign_each, random_arrays
from .tolerances import default_context, default_dtype

__all__ = [
    "create_sparse_array",
    "create_sparse_array_zd",
    "rand_ndarray",
    "rand_sparse_ndarray",
    "shuffle_csr_column_indices",
]

Modifier = Callable[[Any], Any] | None


def rand_ndarray(
    shape: Shape,
    stype: str = "default",
    density: float | None = None,
    dtype: Any = None,
    modifier_func: Modifier = None,
    shuffle_csr_indices: bool = False,
    distribution: str | None = None,
    ctx: Context | None = None,
) -> Any:
    """Return a random NDArray: normally distributed if dense, else as ``rand_sparse_ndarray``."""
    if stype == "default":
        return array(random_arrays(tuple(shape)), dtype=dtype, ctx=ctx or default_context())
    return rand_sparse_ndarray(
        shape,
        stype,
        density=density,
        dtype=dtype,
        distribution=distribution,
        modifier_func=modifier_func,
        shuffle_csr_indices=shuffle_csr_indices,
        ctx=ctx,
    )[0]


def rand_sparse_ndarray(
    shape: Shape,
    stype: str,
    density: float | None = None,
    dtype: Any = None,
    distribution: str | None = None,
    data_init: float | None = None,
    rsp_indices: Any = None,
    modifier_func: Modifier = None,
    shuffle_csr_indices: bool = False,
    ctx: Context | None = None,
) -> tuple[Any, tuple[Any, ...]]:
    """Return a random sparse array and its components.

    Args:
        shape: shape of the array.
        stype: ``"row_sparse"`` or ``"csr"``.
        density: fraction of the rows, or of the elements, that are stored; None is random.
        dtype: dtype; None is float32.
        distribution: ``"uniform"``, or for csr also ``"powerlaw"``: each row has twice as many
            elements as the one before.
        data_init: value of each element, instead of random numbers from [0, 1).
        rsp_indices: indices of the stored rows.
        modifier_func: applied to each element of a row_sparse array.
        shuffle_csr_indices: store the columns of each row in random order.
        ctx: context of the array.

    Returns:
        the array, and (values, rows) in NumPy, or (indptr, indices, data).

    Raises:
        AssertionError: the storage type or distribution is not supported.
        ValueError: the density is outside [0, 1] or too low for a power law.
    """
    ctx = ctx or default_context()
    density = float(np.random.rand()) if density is None else density
    dtype = np.dtype(dtype or default_dtype())
    distribution = distribution or "uniform"
    if stype == "row_sparse" and distribution == "uniform":
        rows = _random_rows(shape[0], density) if rsp_indices is None else np.asarray(rsp_indices)
        return _row_sparse(shape, rows, dtype, data_init, modifier_func, ctx)
    if stype != "csr" or distribution not in ("uniform", "powerlaw"):
        raise AssertionError(f"{stype} arrays of {distribution} distribution are not supported")
    if len(shape) != 2:
        raise AssertionError(f"a csr array has two axes, the shape is {shape}")
    if not 0 <= density <= 1:
        raise ValueError(f"density is {density}; it has to be between 0 and 1")
    made: Any
    if distribution == "powerlaw":
        made = array(_powerlaw_matrix(shape, density, dtype), dtype=dtype, ctx=ctx).tostype("csr")
    else:
        made = _uniform_csr(shape, density, dtype, data_init, ctx)
        if shuffle_csr_indices:
            shuffle_csr_column_indices(made)
    return made, (made.indptr, made.indices, made.data)


def create_sparse_array(
    shape: Shape,
    stype: str,
    data_init: float | None = None,
    rsp_indices: Any = None,
    dtype: Any = None,
    modifier_func: Modifier = None,
    density: float = 0.5,
    shuffle_csr_indices: bool = False,
) -> Any:
    """Return a random sparse array; the rows of a row_sparse one may be given, in any order."""
    return rand_sparse_ndarray(
        shape,
        stype,
        density=density,
        dtype=dtype,
        data_init=data_init,
        rsp_indices=None if rsp_indices is None else np.sort(np.asarray(rsp_indices)),
        modifier_func=modifier_func,
        shuffle_csr_indices=shuffle_csr_indices,
    )[0]


def create_sparse_array_zd(
    shape: Shape,
    stype: str,
    density: float,
    data_init: float | None = None,
    rsp_indices: Any = None,
    dtype: Any = None,
    modifier_func: Modifier = None,
    shuffle_csr_indices: bool = False,
) -> Any:
    """Like ``create_sparse_array``, but a row_sparse array has only the given rows."""
    return create_sparse_array(
        shape,
        stype,
        data_init=data_init,
        rsp_indices=rsp_indices,
        dtype=dtype,
        modifier_func=modifier_func,
        density=0.0 if stype == "row_sparse" else density,
        shuffle_csr_indices=shuffle_csr_indices,
    )


def shuffle_csr_column_indices(csr: CSRNDArray) -> None:
    """Shuffle the column indices of each row of a csr array in place."""
    indptr, indices = csr.indptr.asnumpy(), csr.indices.asnumpy().copy()
    for start, stop in itertools.pairwise(indptr):
        np.random.shuffle(indices[start:stop])
    csr.indices[:] = indices


def _random_rows(count: int, density: float) -> Array:
    return np.flatnonzero(np.random.rand(count) < density)


def _row_sparse(
    shape: Shape,
    rows: Array,
    dtype: Any,
    data_init: float | None,
    modifier: Modifier,
    ctx: Context,
) -> tuple[RowSparseNDArray, tuple[Array, Array]]:
    if len(rows) > shape[0]:
        raise AssertionError(f"{len(rows)} rows are given, the shape is {shape}")
    if len(rows) == 0:
        empty: Any = sparse.zeros("row_sparse", shape, dtype=dtype, ctx=ctx)
        return empty, (np.array([], dtype=dtype), np.array([]))
    values = np.random.rand(len(rows), *shape[1:]).astype(dtype)
    if data_init is not None:
        values.fill(data_init)
    if modifier is not None:
        values = assign_each(values, modifier)
    made: Any = sparse.row_sparse_array((values, rows), shape=shape, dtype=dtype, ctx=ctx)
    return made, (values, rows)


def _uniform_csr(
    shape: Shape, density: float, dtype: Any, data_init: float | None, ctx: Context
) -> Any:
    rows, columns = shape
    count = int(rows * columns * density)
    places = np.sort(np.random.choice(rows * columns, size=count, replace=False))
    data = np.random.rand(count).astype(dtype)
    if data_init is not None:
        data.fill(data_init)
    indptr = np.searchsorted(places, np.arange(rows + 1) * columns)
    parts: Any = (data, places % columns, indptr)
    return sparse.csr_matrix(parts, shape=shape, dtype=dtype, ctx=ctx)


def _powerlaw_matrix(shape: Shape, density: float, dtype: Any) -> Array:
    """Return a matrix whose rows have 1, 2, 4, 8, ... elements until all are placed."""
    rows, columns = shape
    left = int(rows * columns * density)
    if left < 2 * rows:
        raise ValueError(
            f"density {density} is too low for shape {shape}; "
            "keep num_rows * num_cols * density >= 2 * num_rows"
        )
    matrix = np.zeros(shape, dtype=dtype)
    matrix[:, 0] = 1 + np.random.uniform(0.001, 2, size=rows)
    left -= rows
    for row in range(rows):
        more = min(columns, 2 ** min(row + 1, 62)) - 1
        placed = min(more, left)
        matrix[row, 1 : 1 + placed] = 1 + np.random.uniform(0.001, 2, size=placed)
        left -= placed
    if left > 0:
        raise ValueError(f"density {density} is too high for a power law in shape {shape}")
    return matrix
