"""Python's operators on arrays, in terms of MXNet's operators of the same meaning.

The other side is an array or a number; a result keeps the dtype of the array. Comparisons give 0
and 1 in that dtype. They are methods of ``NDArray`` (``__add__ = arithmetic.add``).
"""

from __future__ import annotations

from typing import Any

from .handle import A, Handle

__all__ = [
    "add",
    "add_inplace",
    "divide",
    "divide_inplace",
    "divide_into",
    "equal",
    "greater",
    "greater_equal",
    "lesser",
    "lesser_equal",
    "modulo",
    "modulo_inplace",
    "modulo_of",
    "multiply",
    "multiply_inplace",
    "negative",
    "not_equal",
    "power",
    "power_of",
    "subtract",
    "subtract_from",
    "subtract_inplace",
]


def add(array: Handle[A], other: Any) -> A:
    return array._binary("broadcast_add", "_plus_scalar", other)


def add_inplace(array: Handle[A], other: Any) -> A:
    return array._binary_inplace("broadcast_add", "_plus_scalar", other)


def subtract(array: Handle[A], other: Any) -> A:
    return array._binary("broadcast_sub", "_minus_scalar", other)


def subtract_from(array: Handle[A], other: Any) -> A:
    return array._binary("broadcast_sub", "_rminus_scalar", other)


def subtract_inplace(array: Handle[A], other: Any) -> A:
    return array._binary_inplace("broadcast_sub", "_minus_scalar", other)


def multiply(array: Handle[A], other: Any) -> A:
    return array._binary("broadcast_mul", "_mul_scalar", other)


def multiply_inplace(array: Handle[A], other: Any) -> A:
    return array._binary_inplace("broadcast_mul", "_mul_scalar", other)


def divide(array: Handle[A], other: Any) -> A:
    return array._binary("broadcast_div", "_div_scalar", other)


def divide_into(array: Handle[A], other: Any) -> A:
    return array._binary("broadcast_div", "_rdiv_scalar", other)


def divide_inplace(array: Handle[A], other: Any) -> A:
    return array._binary_inplace("broadcast_div", "_div_scalar", other)


def modulo(array: Handle[A], other: Any) -> A:
    return array._binary("broadcast_mod", "_mod_scalar", other)


def modulo_of(array: Handle[A], other: Any) -> A:
    return array._binary("broadcast_mod", "_rmod_scalar", other)


def modulo_inplace(array: Handle[A], other: Any) -> A:
    return array._binary_inplace("broadcast_mod", "_mod_scalar", other)


def power(array: Handle[A], other: Any) -> A:
    return array._binary("broadcast_power", "_power_scalar", other)


def power_of(array: Handle[A], other: Any) -> A:
    return array._binary("broadcast_power", "_rpower_scalar", other)


def negative(array: Handle[A]) -> A:
    return array._binary("broadcast_mul", "_mul_scalar", -1.0)


def equal(array: Handle[A], other: Any) -> A:
    return array._binary("broadcast_equal", "_equal_scalar", other)


def not_equal(array: Handle[A], other: Any) -> A:
    return array._binary("broadcast_not_equal", "_not_equal_scalar", other)


def greater(array: Handle[A], other: Any) -> A:
    return array._binary("broadcast_greater", "_greater_scalar", other)


def greater_equal(array: Handle[A], other: Any) -> A:
    return array._binary("broadcast_greater_equal", "_greater_equal_scalar", other)


def lesser(array: Handle[A], other: Any) -> A:
    return array._binary("broadcast_lesser", "_lesser_scalar", other)


def lesser_equal(array: Handle[A], other: Any) -> A:
    return array._binary("broadcast_lesser_equal", "_lesser_equal_scalar", other)
