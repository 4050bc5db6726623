"""Python's operators, ``nd.add`` and the like, against NumPy."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core import nd
from core.errors import TypeInferenceError
from core.ndarray import NDArray

A = np.array([[1.5, -2.0, 3.0], [0.5, 2.0, -1.0]], np.float32)
B = np.array([[2.0, -2.0, 0.5], [0.5, 3.0, -4.0]], np.float32)
ROW = np.array([[1.0, 2.0, 4.0]], np.float32)

ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv, operator.mod]
COMPARISONS = [operator.eq, operator.ne, operator.gt, operator.ge, operator.lt, operator.le]


@pytest.mark.parametrize("apply", ARITHMETIC + COMPARISONS)
@pytest.mark.parametrize("other", [B, ROW], ids=["equal shapes", "broadcast"])
def test_operators_on_two_arrays(apply: Callable[[Any, Any], Any], other: np.ndarray) -> None:
    result = apply(nd.array(A), nd.array(other))
    assert result.dtype is np.float32
    assert np.allclose(result.asnumpy(), apply(A, other))


@pytest.mark.parametrize("apply", ARITHMETIC + COMPARISONS)
@pytest.mark.parametrize("number", [2, 0.5, np.float32(1.5), True])
def test_operators_on_an_array_and_a_number(apply: Callable[[Any, Any], Any], number: Any) -> None:
    value = np.float32(number)
    assert np.allclose(apply(nd.array(A), number).asnumpy(), apply(A, value))
    assert np.allclose(apply(float(value), nd.array(A)).asnumpy(), apply(value, A))


def test_powers_match_numpy() -> None:
    positive = np.abs(A)
    assert np.allclose((nd.array(positive) ** nd.array(B)).asnumpy(), positive**B)
    assert np.allclose((nd.array(A) ** 2).asnumpy(), A**2)
    assert np.allclose((2 ** nd.array(A)).asnumpy(), np.float32(2) ** A)


def test_negation_does_not_change_its_operand() -> None:
    x = nd.array(A)
    assert np.array_equal((-x).asnumpy(), -A)
    assert np.array_equal(abs(x).asnumpy(), np.abs(A))
    assert np.array_equal(x.asnumpy(), A)


@pytest.mark.parametrize(
    "apply", [operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.imod]
)
@pytest.mark.parametrize("other", [B, ROW, 2.0])
def test_in_place_operators_change_the_array_and_its_views(
    apply: Callable[[Any, Any], Any], other: Any
) -> None:
    x = nd.array(A)
    view = x[0]
    result = apply(x, nd.array(other) if isinstance(other, np.ndarray) else other)
    expected = apply(A.copy(), other)
    assert result is x
    assert np.allclose(x.asnumpy(), expected)
    assert np.allclose(view.asnumpy(), expected[0])


def test_in_place_operators_with_the_array_itself() -> None:
    x = nd.array(A)
    x *= x
    assert np.allclose(x.asnumpy(), A * A)


def test_read_only_arrays_cannot_be_changed() -> None:
    x = NDArray(A.copy(), writable=False)
    with pytest.raises(ValueError, match="readonly"):
        x += 1
    with pytest.raises(ValueError, match="readonly"):
        x[0] = 1
    with pytest.raises(ValueError, match="readonly"):
        x[0][0] = 1


def test_integers_stay_integers() -> None:
    # MXNet 1.9.1 gives int32 for all of these.
    x = nd.array([5, 8], dtype="int32")
    assert (x / 2).dtype is np.int32
    assert (x + 1).asnumpy().tolist() == [6, 9]
    assert (x > 6).asnumpy().tolist() == [0, 1]


@pytest.mark.parametrize("other", ["x", None, [1], np.ones((2, 3))])
@pytest.mark.parametrize("apply", [operator.add, operator.eq, operator.lt])
def test_other_operands_are_refused(apply: Callable[[Any, Any], Any], other: Any) -> None:
    with pytest.raises(TypeError, match="not supported"):
        apply(nd.array(A), other)


def test_numpy_on_the_left_is_refused_too() -> None:
    with pytest.raises(TypeError, match="not supported"):
        np.ones((2, 3)) + nd.array(A)


def test_mixed_dtypes_are_refused() -> None:
    with pytest.raises(TypeInferenceError, match=r"int32.*float32"):
        nd.ones(2, dtype="int32") + nd.ones(2)


FUNCTIONS = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "true_divide": operator.truediv,
    "modulo": operator.mod,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "lesser": operator.lt,
    "lesser_equal": operator.le,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_match_numpy(name: str) -> None:
    function, expected = getattr(nd, name), FUNCTIONS[name]
    assert np.allclose(function(nd.array(A), nd.array(ROW)).asnumpy(), expected(A, ROW))
    assert np.allclose(function(nd.array(A), 2).asnumpy(), expected(A, np.float32(2)))
    assert np.allclose(function(np.float32(2), nd.array(A)).asnumpy(), expected(np.float32(2), A))
    assert function(5, 2) == expected(5, 2)
    assert isinstance(function(5, 2), (int, float))


def test_power_takes_arrays_and_numbers() -> None:
    assert nd.power(nd.array([2, 3]), 2).asnumpy().tolist() == [4, 9]
    assert nd.power(2, nd.array([2, 3])).asnumpy().tolist() == [4, 8]
    assert nd.power(2, 3) == 8


@pytest.mark.parametrize("name", [*FUNCTIONS, "power"])
def test_functions_refuse_strings(name: str) -> None:
    with pytest.raises(TypeError, match="not supported"):
        getattr(nd, name)(nd.array(A), "x")
