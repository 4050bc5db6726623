"""``mx.nd.contrib``: the operators whose names begin with ``_contrib_``, and a few functions."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from core.errors import MXNetError
from core.ndarray.array import NDArray
from core.ndarray.control_flow import cond, foreach, while_loop
from core.ndarray.creation import array
from core.ndarray.functions import make_function
from core.ops.namespace import OperatorNamespace

__all__ = ["boolean_mask", "cond", "foreach", "isfinite", "isinf", "isnan", "while_loop"]


def isinf(data: NDArray) -> NDArray:
    """Return 1 where an element is infinite, else 0."""
    return abs(data) == math.inf


def isfinite(data: NDArray) -> NDArray:
    """Return 1 where an element is neither infinite nor NaN, else 0."""
    return abs(data) < math.inf


def isnan(data: NDArray) -> NDArray:
    """Return 1 where an element is NaN, else 0."""
    return data != data


def boolean_mask(data: NDArray, index: NDArray, axis: int = 0) -> NDArray:
    """Return the rows of ``data`` where ``index`` is not 0; the gradient of the others is 0.

    A function and no operator: how many rows there are follows from numbers, not from shapes.

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
    if not rows.size:
        return data.wrap(data.dense()[:0])
    return cast(NDArray, data.take(array(rows, ctx=data.context, dtype=rows.dtype)))


_operators = OperatorNamespace(__name__, "_contrib_", make_function)
__getattr__, __dir__ = _operators.get, _operators.names
