"""Functions of two operands, each an array or a number (``nd.add``, ``nd.maximum``, ...).

Two numbers give a number, everything else an array.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .array import NDArray, invoke
from .execute import operator_of

__all__ = [
    "add",
    "divide",
    "equal",
    "greater",
    "greater_equal",
    "lesser",
    "lesser_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "modulo",
    "multiply",
    "not_equal",
    "power",
    "subtract",
    "true_divide",
]


def add(lhs: Any, rhs: Any) -> Any:
    """Return ``lhs + rhs`` with broadcasting."""
    return _either(lhs, rhs) + rhs


def subtract(lhs: Any, rhs: Any) -> Any:
    """Return ``lhs - rhs`` with broadcasting."""
    return _either(lhs, rhs) - rhs


def multiply(lhs: Any, rhs: Any) -> Any:
    """Return ``lhs * rhs`` with broadcasting."""
    return _either(lhs, rhs) * rhs


def divide(lhs: Any, rhs: Any) -> Any:
    """Return ``lhs / rhs`` with broadcasting."""
    return _either(lhs, rhs) / rhs


true_divide = divide


def modulo(lhs: Any, rhs: Any) -> Any:
    """Return ``lhs % rhs`` with broadcasting."""
    return _either(lhs, rhs) % rhs


def power(base: Any, exp: Any) -> Any:
    """Return ``base ** exp`` with broadcasting."""
    return _either(base, exp) ** exp


def maximum(lhs: Any, rhs: Any) -> Any:
    """Return the larger of each two elements, with broadcasting."""
    return _symmetric("maximum", max, lhs, rhs)


def minimum(lhs: Any, rhs: Any) -> Any:
    """Return the smaller of each two elements, with broadcasting."""
    return _symmetric("minimum", min, lhs, rhs)


def equal(lhs: Any, rhs: Any) -> Any:
    """Return 1 where ``lhs == rhs``, else 0, with broadcasting."""
    return _comparison(operator.eq, lhs, rhs)


def not_equal(lhs: Any, rhs: Any) -> Any:
    """Return 1 where ``lhs != rhs``, else 0, with broadcasting."""
    return _comparison(operator.ne, lhs, rhs)


def greater(lhs: Any, rhs: Any) -> Any:
    """Return 1 where ``lhs > rhs``, else 0, with broadcasting."""
    return _comparison(operator.gt, lhs, rhs)


def greater_equal(lhs: Any, rhs: Any) -> Any:
    """Return 1 where ``lhs >= rhs``, else 0, with broadcasting."""
    return _comparison(operator.ge, lhs, rhs)


def lesser(lhs: Any, rhs: Any) -> Any:
    """Return 1 where ``lhs < rhs``, else 0, with broadcasting."""
    return _comparison(operator.lt, lhs, rhs)


def lesser_equal(lhs: Any, rhs: Any) -> Any:
    """Return 1 where ``lhs <= rhs``, else 0, with broadcasting."""
    return _comparison(operator.le, lhs, rhs)


def logical_and(lhs: Any, rhs: Any) -> Any:
    """Return 1 where both are not 0, else 0, with broadcasting."""
    return _symmetric("logical_and", lambda a, b: int(bool(a and b)), lhs, rhs)


def logical_or(lhs: Any, rhs: Any) -> Any:
    """Return 1 where one is not 0, else 0, with broadcasting."""
    return _symmetric("logical_or", lambda a, b: int(bool(a or b)), lhs, rhs)


def logical_xor(lhs: Any, rhs: Any) -> Any:
    """Return 1 where exactly one is not 0, else 0, with broadcasting."""
    return _symmetric("logical_xor", lambda a, b: int(bool(a) ^ bool(b)), lhs, rhs)


def _either(lhs: Any, rhs: Any) -> Any:
    """Return the left operand, checked: Python's operators do the rest."""
    for side in (lhs, rhs):
        if not isinstance(side, (NDArray, int, float, np.generic)):
            raise TypeError(f"type {type(side)} not supported; expected an NDArray or a number")
    # A NumPy scalar on the left would iterate over the array instead of deferring to its operator.
    return lhs.item() if isinstance(lhs, np.generic) else lhs


def _comparison(compare: Callable[[Any, Any], Any], lhs: Any, rhs: Any) -> Any:
    result = compare(_either(lhs, rhs), rhs)
    return result if isinstance(result, NDArray) else int(result)


def _symmetric(name: str, of_numbers: Callable[[Any, Any], Any], lhs: Any, rhs: Any) -> Any:
    lhs = _either(lhs, rhs)
    if not isinstance(lhs, NDArray):
        lhs, rhs = rhs, lhs
    if not isinstance(lhs, NDArray):
        return of_numbers(rhs, lhs)
    if isinstance(rhs, NDArray):
        return invoke(operator_of(f"broadcast_{name}", {}), (lhs, rhs))
    return invoke(operator_of(f"_{name}_scalar", {"scalar": float(rhs)}), (lhs,))
