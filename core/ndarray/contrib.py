"""``mx.nd.contrib``: the operators whose names begin with ``_contrib_``, and a few functions."""

from __future__ import annotations

import math

from core.ndarray.array import NDArray
from core.ndarray.control_flow import cond, foreach, while_loop
from core.ndarray.functions import make_function
from core.ops.namespace import OperatorNamespace

__all__ = ["cond", "foreach", "isfinite", "isinf", "isnan", "while_loop"]


def isinf(data: NDArray) -> NDArray:
    """Return 1 where an element is infinite, else 0."""
    return abs(data) == math.inf


def isfinite(data: NDArray) -> NDArray:
    """Return 1 where an element is neither infinite nor NaN, else 0."""
    return abs(data) < math.inf


def isnan(data: NDArray) -> NDArray:
    """Return 1 where an element is NaN, else 0."""
    return data != data


_operators = OperatorNamespace(__name__, "_contrib_", make_function)
__getattr__, __dir__ = _operators.get, _operators.names
