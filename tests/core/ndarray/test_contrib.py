"""Functions of ``mx.nd.contrib`` that are not operators."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.errors import MXNetError


def test_boolean_mask_keeps_rows() -> None:
    """Values from MXNet's documentation."""
    data = mx.nd.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    data.attach_grad()
    with mx.autograd.record():
        kept = mx.nd.contrib.boolean_mask(data, mx.nd.array([0, 1, 0]))
        (kept * 2).backward()
    assert kept.asnumpy().tolist() == [[4, 5, 6]]
    assert data.grad.asnumpy().tolist() == [[0, 0, 0], [2, 2, 2], [0, 0, 0]]


def test_boolean_mask_of_none_and_of_all_rows() -> None:
    data = mx.nd.ones((2, 3), dtype="float16")
    nothing = mx.nd.contrib.boolean_mask(data, mx.nd.zeros((2,)))
    assert (nothing.shape, nothing.dtype) == ((0, 3), data.dtype)
    assert mx.nd.contrib.boolean_mask(data, mx.nd.array([1, -1])).shape == (2, 3)


def test_boolean_mask_of_another_length_is_refused() -> None:
    data = mx.nd.ones((2, 3))
    with pytest.raises(MXNetError, match="only 0 is supported"):
        mx.nd.contrib.boolean_mask(data, mx.nd.ones((3,)), axis=1)
    with pytest.raises(MXNetError, match=r"index has shape \(3,\), data \(2, 3\)"):
        mx.nd.contrib.boolean_mask(data, mx.nd.ones((3,)))


def test_edge_id_finds_stored_values() -> None:
    """The example in MXNet's documentation."""
    graph = mx.nd.array([[1, 0, 0], [0, 2, 0], [0, 0, 3]]).tostype("csr")
    u, v = mx.nd.array([0, 0, 1, 1, 2, 2]), mx.nd.array([0, 1, 1, 2, 0, 2])
    assert mx.nd.contrib.edge_id(graph, u, v).asnumpy().tolist() == [1, -1, 2, -1, -1, 3]
    with pytest.raises(MXNetError, match="csr matrix, got storage 'default'"):
        mx.nd.contrib.edge_id(mx.nd.ones((3, 3)), u, v)


def test_zipfian_candidates_have_their_expected_counts() -> None:
    """P(class) = log((class + 2) / (class + 1)) / log(range_max + 1)."""
    mx.random.seed(1)
    drawn, of_true, of_drawn = mx.nd.contrib.rand_zipfian(mx.nd.array([3]), 4000, 5)
    counts = 4000 * np.log((np.arange(5) + 2) / (np.arange(5) + 1)) / np.log(6)
    classes = drawn.asnumpy()
    assert classes.dtype == np.int64
    assert of_true.asnumpy() == pytest.approx(counts[3], rel=1e-12)
    np.testing.assert_allclose(of_drawn.asnumpy(), counts[classes], rtol=1e-12)
    np.testing.assert_allclose(np.bincount(classes, minlength=5), counts, rtol=0.2)


def test_a_sparse_state_is_updated_by_a_dense_operator() -> None:
    weight, grad = mx.nd.zeros((2, 1)), mx.nd.array([[1], [2]])
    mom = mx.nd.sparse.zeros("row_sparse", (2, 1))
    mx.nd.sgd_mom_update(weight, grad, mom, lr=1.0, momentum=0.9, out=weight)
    assert mom.asnumpy().tolist() == weight.asnumpy().tolist() == [[-1], [-2]]


@pytest.mark.parametrize("factor", [0.5, mx.nd.array([0.5])])
def test_adamw_takes_scalar_and_array_scales(factor: mx.nd.NDArray | float) -> None:
    """A first step with lr 1 and beta 0 is the gradient's sign; weight decay is added to it."""
    weight, grad = mx.nd.array([1, 2]), mx.nd.array([4, -2])
    mean, var = mx.nd.zeros((2,)), mx.nd.zeros((2,))
    settings = {"lr": 1.0, "eta": 0.5, "beta1": 0.0, "beta2": 0.0, "wd": 1.0, "epsilon": 0.0}
    mx.nd.contrib.adamw_update(weight, grad, mean, var, factor, out=weight, **settings)
    assert weight.asnumpy().tolist() == [0, 1.5]
    assert mean.asnumpy().tolist() == [2, -1]
    half, copy = weight.astype("float16"), mx.nd.array([1, 2])
    mx.nd.contrib.mp_adamw_update(
        half, grad.astype("float16"), mean, var, copy, factor, out=half, **settings
    )
    assert half.asnumpy().tolist() == copy.asnumpy().tolist() == [0, 1.5]
