"""``mx.nd.contrib``: the operators whose names begin with ``_contrib_``, and a few functions."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from ..device import Context, current_context
from ..errors import MXNetError
from ..ops.namespace import OperatorNamespace
from .array import NDArray
from .contrib_updates import (
    adamw_update,
    mp_adamw_update,
    multi_adamw_update,
    multi_lamb_update,
    multi_mp_adamw_update,
    multi_mp_lamb_update,
)
from .control_flow import cond, foreach, while_loop
from .creation import array
from .functions import make_function
from .np_shape import is_np_shape
from .random import uniform
from .sparse_array import CSRNDArray
from .zipfian import sample_zipfian

__all__ = [
    "adamw_update",
    "boolean_mask",
    "cond",
    "edge_id",
    "foreach",
    "getnnz",
    "isfinite",
    "isinf",
    "isnan",
    "mp_adamw_update",
    "multi_adamw_update",
    "multi_lamb_update",
    "multi_mp_adamw_update",
    "multi_mp_lamb_update",
    "rand_zipfian",
    "while_loop",
]


def isinf(data: NDArray) -> NDArray:
    """Return 1 where an element is infinite, else 0."""
    return abs(data) == math.inf


def isfinite(data: NDArray) -> NDArray:
    """Return 1 where an element is neither infinite nor NaN, else 0."""
    return abs(data) < math.inf


def isnan(data: NDArray) -> NDArray:
    """Return 1 where an element is NaN, else 0."""
    return data != data


def getnnz(data: NDArray, axis: int | None = None) -> NDArray:
    """Return how many values a csr matrix stores, zeros among them counted, as int64.

    Args:
        data: a ``CSRNDArray``.
        axis: None for all together, shape (1,); 1 for each row, shape (n,).

    Raises:
        MXNetError: another axis, or no csr matrix.
    """
    if not isinstance(data, CSRNDArray):
        raise MXNetError(f"getnnz counts the values of a csr matrix, got storage {data.stype!r}")
    starts = data.indptr
    if axis is None:
        return starts[-1:] - starts[:1]
    if axis != 1:
        raise MXNetError(f"getnnz: axis is {axis}; expected None or 1")
    return starts[1:] - starts[:-1]


def edge_id(data: NDArray, u: NDArray, v: NDArray) -> NDArray:
    """Return a csr matrix's values at rows ``u`` and columns ``v``, -1 where none is stored.

    Args:
        data: a ``CSRNDArray``, such as the adjacency matrix of a graph.
        u: rows, shape (n,).
        v: columns, shape (n,).

    Raises:
        MXNetError: no csr matrix.
    """
    if not isinstance(data, CSRNDArray):
        raise MXNetError(f"edge_id looks into a csr matrix, got storage {data.stype!r}")
    starts, columns = data.indptr.asnumpy(), data.indices.asnumpy()
    values = data.data.asnumpy()
    found = np.full(u.shape, -1, values.dtype)
    rows = u.asnumpy().astype(np.int64)
    for i, (row, column) in enumerate(zip(rows, v.asnumpy().astype(np.int64), strict=True)):
        (places,) = np.nonzero(columns[starts[row] : starts[row + 1]] == column)
        if places.size:
            found[i] = values[starts[row] + places[0]]
    return array(found, ctx=data.context, dtype=found.dtype)


def rand_zipfian(
    true_classes: NDArray, num_sampled: int, range_max: int, ctx: Context | None = None
) -> tuple[NDArray, NDArray, NDArray]:
    """Draw classes with replacement, those of small numbers more often (Zipf's law, nearly).

    Args:
        true_classes: shape (n,).
        num_sampled: how many to draw.
        range_max: how many classes there are.
        ctx: device, by default the current context.

    Returns:
        the classes drawn, int64 (num_sampled,), and how often each true class and each one drawn is
        expected among so many, float64 (n,) and (num_sampled,).
    """
    context = ctx or current_context()
    limit = math.log(range_max + 1)
    exponents = uniform(0, limit, shape=(num_sampled,), dtype="float64", ctx=context)
    return sample_zipfian(exponents, true_classes.as_in_context(context), num_sampled, range_max)


def boolean_mask(data: NDArray, index: NDArray, axis: int = 0) -> NDArray:
    """Return the rows of ``data`` where ``index`` is not 0; the gradient of the others is 0.

    Not an operator, because the shape of its result depends on values, not only on shapes.

    Args:
        data: shape (n, ...).
        index: shape (n,).
        axis: must be 0, as in MXNet.

    Raises:
        MXNetError: another axis, or another length of ``index``.
    """
    if axis != 0:
        raise MXNetError(f"boolean_mask: axis is {axis}; only 0 is supported")
    if index.shape != data.shape[:1]:
        raise MXNetError(f"boolean_mask: index has shape {index.shape}, data {data.shape}")
    rows = np.flatnonzero(index.asnumpy())
    if not rows.size and not is_np_shape():
        # `take` would refuse the empty index, whose length of 0 means "unknown" to operators.
        return data.wrap(data.dense()[:0])
    return cast(NDArray, data.take(array(rows, ctx=data.context, dtype=rows.dtype)))


_operators = OperatorNamespace(__name__, "_contrib_", make_function)
__getattr__, __dir__ = _operators.get, _operators.names
