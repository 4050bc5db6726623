"""Assertion helpers pass and fail where they should, and name the position of a difference."""

import numpy as np
import pytest

import core as mx
from core.test_utils import (
    almost_equal,
    assert_almost_equal,
    assert_almost_equal_ignore_nan,
    assert_almost_equal_with_err,
    assert_exception,
    compare_ndarray_tuple,
    get_tols,
    same,
    same_array,
    same_symbol_structure,
)


@pytest.mark.parametrize(
    ("dtype", "rtol", "atol"), [("float16", 1e-2, 1e-1), ("float32", 1e-4, 1e-3), ("int32", 0, 0)]
)
def test_tolerances_are_those_of_the_coarser_dtype(dtype: str, rtol: float, atol: float) -> None:
    got = get_tols(mx.nd.zeros((1,), dtype=dtype), np.zeros(1, "int64"), None, None)
    assert got == (rtol, atol)
    assert get_tols(np.zeros(1, dtype), 0, 1e-9, {np.dtype(dtype): 7, np.dtype("int64"): 3}) == (
        1e-9,
        7,
    )


def test_arrays_of_both_kinds_are_compared() -> None:
    assert_almost_equal(mx.nd.array([1, 2]), np.array([1, 2.0005]))
    assert_almost_equal(mx.nd.array([1, 2]), mx.nd.array([1, 2]), rtol=0, atol=0)
    assert_almost_equal(np.float32(3), 3.0)
    assert almost_equal(mx.nd.array([1]), np.array([1.0]))
    assert not almost_equal(np.array([1.0]), np.array([1.1]))
    assert same(mx.nd.ones((2,)), np.ones(2))
    assert not same(np.ones(2), np.ones(3))


def test_a_difference_is_reported_with_its_position() -> None:
    with pytest.raises(AssertionError, match=r"33\.3.*of 3 elements") as caught:
        assert_almost_equal(np.array([1, 2, 3.5]), np.array([1, 2, 3.0]), names=("got", "want"))
    assert "(2,): got=3.50000000, want=3.00000000" in str(caught.value)


def test_nan_differs_unless_it_may_be_equal() -> None:
    a = np.array([1, np.nan])
    with pytest.raises(AssertionError, match=r"\(1,\)"):
        assert_almost_equal(a, a)
    assert_almost_equal(a, a, equal_nan=True)
    assert_almost_equal_ignore_nan(a, np.array([1, 5.0]))
    with pytest.raises(AssertionError):
        assert_almost_equal_ignore_nan(a, np.array([2, 5.0]))


def test_shapes_must_agree_without_broadcasting() -> None:
    assert_almost_equal(np.ones((2, 2)), np.ones(2))
    with pytest.raises(AssertionError, match=r"a.shape = \(2, 2\) and b.shape = \(2,\)"):
        assert_almost_equal(np.ones((2, 2)), np.ones(2), use_broadcast=False)


def test_a_fraction_of_elements_may_differ() -> None:
    a, b = np.zeros(10), np.zeros(10)
    a[0] = 1
    assert_almost_equal_with_err(a, b, rtol=0, atol=1e-3, etol=0.1)
    with pytest.raises(AssertionError):
        assert_almost_equal_with_err(a, b, rtol=0, atol=1e-3, etol=0.05)
    with pytest.raises(AssertionError):
        assert_almost_equal_with_err(a, b, rtol=0, atol=1e-3)


def test_assert_exception_checks_that_and_what_is_raised() -> None:
    assert_exception(int, ValueError, "x")
    with pytest.raises(AssertionError, match="raised nothing"):
        assert_exception(int, ValueError, "1")
    with pytest.raises(ValueError, match="invalid literal"):
        assert_exception(int, KeyError, "x")


def test_tuples_are_compared_element_by_element() -> None:
    one, two = mx.nd.ones((2,)), mx.nd.zeros((2,))
    compare_ndarray_tuple((one, (two, None)), (one, (two, one)))
    with pytest.raises(AssertionError):
        compare_ndarray_tuple((one, (two,)), (one, (one,)))


def test_shared_memory_is_detected() -> None:
    a = mx.nd.zeros((2, 3))
    assert same_array(a, a.reshape((3, 2)).reshape((2, 3)))
    assert not same_array(a, a.copy())
    np.testing.assert_array_equal(a.asnumpy(), 0)


def test_symbols_are_compared_by_their_operators() -> None:
    def net(activation: str) -> mx.sym.Symbol:
        hidden = mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=3)
        return getattr(mx.sym, activation)(hidden)

    assert same_symbol_structure(net("relu"), net("relu"))
    assert not same_symbol_structure(net("relu"), net("tanh"))
