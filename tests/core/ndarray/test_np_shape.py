"""Zero-size arrays and scalars in np-shape mode, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import core as mx
from core import nd
from core.errors import MXNetError, ShapeError


def ones(*shape: int) -> Any:
    return nd.ones(shape)


@pytest.mark.parametrize(
    ("compute", "shape"),
    [
        (lambda: nd.tile(ones(2, 3, 0, 4), (2, 4, 6)), (2, 6, 0, 24)),
        (lambda: nd.one_hot(ones(2, 0, 3), depth=10), (2, 0, 3, 10)),
        (lambda: nd.concat(ones(0, 8), ones(3, 8), ones(0, 8), dim=0), (3, 8)),
        (lambda: nd.concat(ones(0, 3, 4), ones(0, 5, 4), dim=1), (0, 8, 4)),
        (lambda: nd.broadcast_like(ones(8, 1), ones(8, 0)), (8, 0)),
        (lambda: ones(0, 1) + 1, (0, 1)),
        (lambda: nd.broadcast_add(ones(0, 1), ones(1, 4)), (0, 4)),
        (lambda: nd.dot(ones(0, 4), ones(4, 2)), (0, 2)),
        (lambda: ones(0, 4).T, (4, 0)),
        (lambda: nd.take(ones(3, 4), nd.array(np.zeros((0,)))), (0, 4)),
        (lambda: nd.contrib.boolean_mask(ones(3, 2), nd.array([0, 0, 0])), (0, 2)),
        (lambda: nd.contrib.index_array(ones(0, 3)), (0, 3, 2)),
        (lambda: ones().reshape((1, 1)), (1, 1)),
    ],
)
def test_shapes_of_empty_arrays(compute: Callable[[], Any], shape: tuple[int, ...]) -> None:
    """MXNet 1.9.1 gives the same."""
    with mx.np_shape():
        assert compute().shape == shape


def test_sums_of_nothing_are_zero() -> None:
    with mx.np_shape():
        assert ones(0, 4).sum().asscalar() == 0
        np.testing.assert_array_equal(ones(3, 0).sum(axis=1).asnumpy(), np.zeros(3))


@pytest.mark.parametrize("function", [nd.max, nd.min])
def test_extremes_of_nothing_are_refused(function: Callable[..., Any]) -> None:
    with mx.np_shape(), pytest.raises(MXNetError, match=r"\(5, 0\) has no elements"):
        function(ones(5, 0))


def test_gradient_through_an_empty_selection() -> None:
    x = nd.array([[1, 2], [3, 4]])
    x.attach_grad()
    with mx.np_shape():
        with mx.autograd.record():
            y = nd.contrib.boolean_mask(x, nd.array([0, 0]))
        y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), np.zeros((2, 2)))


def test_outside_np_shape_a_zero_means_unknown() -> None:
    with mx.np_shape():
        empty = ones(0, 4)
    with pytest.raises(ShapeError, match=r"only inside `with mx.np_shape\(\):`"):
        nd.tile(empty, (2, 2))


def test_one_hot_of_depth_zero_is_empty_in_either_mode() -> None:
    for active in (False, True):
        with mx.np_shape(active):
            assert nd.one_hot(nd.array([1, 2]), depth=0).shape == (2, 0)


@pytest.mark.parametrize("shape", [(), (0, 0), (2, 0)])
def test_executors_run_on_empty_arrays(shape: tuple[int, ...]) -> None:
    x = mx.sym.Variable("x")
    with mx.np_shape():
        exe = (2 * x).bind(mx.cpu(), [ones(*shape)], args_grad=[ones(*shape)])
        (out,) = exe.forward(is_train=True)
        exe.backward(ones(*shape))
    np.testing.assert_array_equal(out.asnumpy(), np.full(shape, 2))
    np.testing.assert_array_equal(exe.grad_dict["x"].asnumpy(), np.full(shape, 2))


def test_shape_inference_of_symbols() -> None:
    x = mx.sym.Variable("x")
    out = mx.sym.concat(x, mx.sym.Variable("y"), dim=0)
    with mx.np_shape():
        assert out.infer_shape(x=(0, 3), y=(2, 3))[1] == [(2, 3)]
        assert out.infer_shape(x=(0, 3), y=(0, -1)) == ([(0, 3), (0, 3)], [(0, 3)], [])
        assert mx.sym.contrib.index_array(x).infer_shape(x=())[1] == [(0,)]
        with pytest.raises(ShapeError, match="expected"):
            (x + mx.sym.Variable("y")).infer_shape(x=(0, 3), y=(2, 3))
