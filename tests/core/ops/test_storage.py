"""Storage types of results as in MXNet 1.9.1, and the operators on storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import core as mx
from core import nd
from core.errors import AttributeValueError
from oracle.apply import apply, make

NAN = float("nan")
DENSE = nd.array([[0, 0], [1, 2]])
ARRAYS = {
    "default": nd.ones((2, 2)),
    "row_sparse": DENSE.tostype("row_sparse"),
    "csr": DENSE.tostype("csr"),
}
RSP, CSR, DNS = "row_sparse", "csr", "default"

UNARY = "abs sign round rint ceil floor trunc fix square sqrt sin tan arcsin arctan sinh tanh "
UNARY += "arcsinh arctanh expm1 log1p degrees radians negative relu identity BlockGrad zeros_like"


@pytest.mark.parametrize("name", UNARY.split())
@pytest.mark.parametrize("stype", [RSP, CSR])
def test_zero_preserving_functions_keep_the_storage_type(name: str, stype: str) -> None:
    found = getattr(nd, name)(ARRAYS[stype])
    assert found.stype == stype
    np.testing.assert_allclose(found.asnumpy(), getattr(nd, name)(DENSE).asnumpy())


@pytest.mark.parametrize("name", ["cos", "sigmoid", "softsign", "ones_like", "erf"])
@pytest.mark.parametrize("stype", [RSP, CSR])
def test_other_functions_give_dense_arrays(name: str, stype: str) -> None:
    assert getattr(nd, name)(ARRAYS[stype]).stype == "default"


PAIRS = ((RSP, RSP), (CSR, CSR), (RSP, DNS), (DNS, RSP), (CSR, DNS), (DNS, CSR))


@pytest.mark.parametrize(
    ("function", "stypes"),
    [
        (nd.elemwise_add, (RSP, CSR, DNS, DNS, DNS, DNS)),
        (nd.elemwise_sub, (RSP, CSR, DNS, DNS, DNS, DNS)),
        (nd.elemwise_mul, (RSP, CSR, RSP, RSP, CSR, CSR)),
        (nd.elemwise_div, (DNS, DNS, DNS, DNS, DNS, DNS)),
        (nd._internal._maximum, (RSP, CSR, DNS, DNS, DNS, DNS)),
        (nd._internal._hypot, (RSP, CSR, DNS, DNS, DNS, DNS)),
        (nd._internal._power, (DNS, DNS, DNS, DNS, DNS, DNS)),
    ],
)
def test_storage_types_of_binary_functions(
    function: Callable[..., Any], stypes: tuple[str, ...]
) -> None:
    found = [function(ARRAYS[left], ARRAYS[right]).stype for left, right in PAIRS]
    assert tuple(found) == stypes


@pytest.mark.parametrize(
    ("compute", "stypes"),
    [
        (lambda x: x + x, (RSP, CSR)),
        (lambda x: x * x, (RSP, CSR)),
        (lambda x: x * ARRAYS[DNS], (RSP, CSR)),
        (lambda x: x * 5, (RSP, CSR)),
        (lambda x: x / 5, (RSP, CSR)),
        (lambda x: x + 5, (DNS, DNS)),
        (lambda x: nd.broadcast_mul(x, nd.ones((1, 2))), (DNS, CSR)),
        (lambda x: nd.broadcast_add(x, nd.ones((1, 2))), (DNS, DNS)),
        (lambda x: nd.clip(x, 0, 1), (RSP, CSR)),
        (lambda x: nd.add_n(x, x), (RSP, DNS)),
        (lambda x: nd.sum(x), (DNS, DNS)),
        (lambda x: nd.dot(x, ARRAYS[DNS]), (DNS, DNS)),
        (lambda x: nd.dot(x, ARRAYS[DNS], transpose_a=True), (DNS, RSP)),
        (lambda x: nd.take(x, nd.array([1, 0, 5])), (DNS, CSR)),
        (lambda x: nd.take(x, nd.array([1, 0]), mode="raise"), (DNS, DNS)),
        (lambda x: nd.take(x, nd.array([1, 0]), axis=1), (DNS, DNS)),
        (lambda x: nd.contrib.quadratic(x, a=1, b=2, c=0), (DNS, CSR)),
        (lambda x: nd.contrib.quadratic(x, a=1, b=2, c=3), (DNS, DNS)),
    ],
)
def test_storage_types_of_other_operators(
    compute: Callable[[Any], Any], stypes: tuple[str, str]
) -> None:
    assert (compute(ARRAYS[RSP]).stype, compute(ARRAYS[CSR]).stype) == stypes


def test_squares_summed_along_rows_stay_row_sparse() -> None:
    rows = nd._internal._square_sum(ARRAYS[RSP], axis=1, keepdims=True)
    assert rows.stype == RSP
    assert rows.indices.asnumpy().tolist() == [1]
    assert rows.asnumpy().tolist() == [[0], [5]]
    assert nd._internal._square_sum(ARRAYS[RSP], axis=0, keepdims=True).stype == DNS


def test_gradients_pass_through_sparse_results() -> None:
    x = DENSE.tostype("csr")
    x.attach_grad()
    with mx.autograd.record():
        y = x * 3
        assert y.stype == CSR
        z = nd.sum(y * y)
    z.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), 18 * DENSE.asnumpy())


def test_cast_storage_does_not_change_values() -> None:
    values = np.float32([[1, 0], [2, 3]])
    got = apply("cast_storage", {"stype": "csr"}, [values], [values + 1])
    np.testing.assert_array_equal(got.outputs[0], values)
    np.testing.assert_array_equal(got.grads[0], values + 1)
    with pytest.raises(AttributeValueError, match="stype"):
        make("cast_storage", {"stype": "coo"})


def test_sparse_retain_and_its_gradient() -> None:
    values = np.arange(6, dtype="float32").reshape(3, 2) + 1
    got = apply("_sparse_retain", {}, [values, np.float32([0, 2])], [10 * values])
    np.testing.assert_array_equal(got.outputs[0], [[1, 2], [0, 0], [5, 6]])
    np.testing.assert_array_equal(got.grads[0], [[10, 20], [0, 0], [50, 60]])


@pytest.mark.parametrize("stype", [RSP, CSR])
@pytest.mark.parametrize(
    ("compare", "sparse"),
    [
        (lambda x: x == 0, False),
        (lambda x: x == 1, True),
        (lambda x: x != 0, True),
        (lambda x: x != 1, False),
        (lambda x: x > 0, True),
        (lambda x: x > -1, False),
        (lambda x: x >= 0, False),
        (lambda x: x >= 1, True),
        (lambda x: x < 0, True),
        (lambda x: x < 1, False),
        (lambda x: x <= 0, False),
        (lambda x: x <= -1, True),
        (lambda x: x == x, False),
        (lambda x: x < NAN, True),
        (lambda x: x <= NAN, True),
        (lambda x: x > NAN, True),
        (lambda x: x >= NAN, True),
        (lambda x: x != NAN, False),
        (lambda x: x + 0, True),
        (lambda x: x - 0, True),
        (lambda x: x + 1, False),
        (lambda x: 0 - x, False),
    ],
)
def test_zero_preserving_functions_of_numbers_keep_the_storage_type(
    stype: str, compare: Any, sparse: bool
) -> None:
    """As in MXNet 1.9.1; functions of another array give dense results."""
    found = compare(ARRAYS[stype])
    assert found.stype == (stype if sparse else "default")
    np.testing.assert_array_equal(found.asnumpy(), compare(DENSE).asnumpy())
