"""Operators that compute on the stored values of sparse arrays alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import core as mx

MANY = 10**9
"""As many columns as no dense array here could have."""
PLACES = np.array([3, 10**6, MANY - 1])
X = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.5, -1.0]], np.float32)
VALUES = np.arange(1, 7, dtype=np.float32).reshape(3, 2)


def _csr() -> mx.nd.NDArray:
    parts = X[X != 0], PLACES[X.nonzero()[1]], [0, 2, 2, 4]
    return mx.nd.sparse.csr_matrix(parts, shape=(3, MANY))


def _rows(values: np.ndarray = VALUES) -> mx.nd.NDArray:
    return mx.nd.sparse.row_sparse_array((values, PLACES), shape=(MANY, values.shape[1]))


def test_products_with_many_columns() -> None:
    product = mx.nd.sparse.dot(_csr(), _rows())
    np.testing.assert_allclose(product.asnumpy(), X @ VALUES, rtol=1e-6)
    back = mx.nd.sparse.dot(_csr(), mx.nd.array(VALUES), transpose_a=True)
    assert back.stype == "row_sparse"
    assert back.indices.asnumpy().tolist() == PLACES.tolist()
    np.testing.assert_allclose(back.data.asnumpy(), X.T @ VALUES, rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x.square(), X**2),
        (lambda x: x * 3, X * 3),
        (lambda x: x + x, X * 2),
        (lambda x: x - x.square(), X - X**2),
        (lambda x: x * x, X**2),
    ],
)
def test_functions_of_csr_with_many_columns(
    function: Callable[[mx.nd.NDArray], mx.nd.NDArray], expected: np.ndarray
) -> None:
    given = _csr()
    found = function(given)
    assert (found.stype, found.shape) == ("csr", (3, MANY))
    dense = np.zeros_like(X)
    ends = found.indptr.asnumpy()
    places, values = found.indices.asnumpy(), found.data.asnumpy()
    for row in range(3):
        part = slice(ends[row], ends[row + 1])
        dense[row, np.searchsorted(PLACES, places[part])] += values[part]
    np.testing.assert_allclose(dense, expected, rtol=1e-6)
    found.indices[:] = 0
    assert given.indices.asnumpy().tolist() == PLACES[X.nonzero()[1]].tolist()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda v: v.square(), VALUES**2),
        (lambda v: v / 2, VALUES / 2),
        (lambda v: v + v, VALUES * 2),
        (lambda v: v * v, VALUES**2),
        (
            lambda v: mx.nd._internal._square_sum(v, axis=1, keepdims=True),
            (VALUES**2).sum(axis=1, keepdims=True),
        ),
    ],
)
def test_functions_of_row_sparse_arrays_with_many_rows(
    function: Callable[[mx.nd.NDArray], mx.nd.NDArray], expected: np.ndarray
) -> None:
    found = function(_rows())
    assert found.stype == "row_sparse"
    assert found.indices.asnumpy().tolist() == PLACES.tolist()
    np.testing.assert_allclose(found.data.asnumpy(), expected, rtol=1e-6)


def test_gradients_of_recorded_products_hold_only_the_rows_read() -> None:
    weight = _rows()
    mx.autograd.mark_variables([weight], [mx.nd.sparse.zeros("row_sparse", (MANY, 2))])
    with mx.autograd.record():
        product = mx.nd.sparse.dot(_csr(), weight)
        loss = (product * product).sum()
    loss.backward()
    assert weight.grad.stype == "row_sparse"
    assert weight.grad.indices.asnumpy().tolist() == PLACES.tolist()
    np.testing.assert_allclose(weight.grad.data.asnumpy(), 2 * X.T @ (X @ VALUES), rtol=1e-5)


def test_gradients_pass_through_row_sparse_functions() -> None:
    weight = mx.nd.array(VALUES).tostype("row_sparse")
    weight.attach_grad()
    with mx.autograd.record():
        loss = mx.nd.sparse.dot(mx.nd.array(X).tostype("csr"), weight.square() * 2).sum()
    loss.backward()
    expected = X.sum(axis=0)[:, None] * 4 * VALUES
    np.testing.assert_allclose(weight.grad.asnumpy(), expected, rtol=1e-5)


def test_gradients_of_gradients_of_sparse_products() -> None:
    weight, x = mx.nd.array(VALUES), mx.nd.array(X).tostype("csr")
    weight.attach_grad()
    with mx.autograd.record():
        product = mx.nd.dot(x, weight)
        loss = (product * product * product).sum()
        (first,) = mx.autograd.grad(loss, [weight], create_graph=True)
        total = (first * first).sum()
    total.backward()
    dense = mx.nd.array(VALUES)
    dense.attach_grad()
    with mx.autograd.record():
        product = mx.nd.dot(mx.nd.array(X), dense)
        loss = (product * product * product).sum()
        (first,) = mx.autograd.grad(loss, [dense], create_graph=True)
        total = (first * first).sum()
    total.backward()
    np.testing.assert_allclose(weight.grad.asnumpy(), dense.grad.asnumpy(), rtol=1e-5)


def test_the_gradient_with_respect_to_csr_data_is_dense() -> None:
    x = mx.nd.array(X).tostype("csr")
    x.attach_grad(stype="default")
    with mx.autograd.record():
        loss = mx.nd.dot(x, mx.nd.array(VALUES)).sum()
    loss.backward()
    expected = np.broadcast_to(VALUES.sum(axis=1), (3, 3))
    np.testing.assert_allclose(x.grad.asnumpy(), expected, rtol=1e-6)
