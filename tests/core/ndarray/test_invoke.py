"""Calling operators by name."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import core as mx
from core import nd
from core.errors import (
    AttributeValueError,
    GraphError,
    MXNetError,
    ShapeError,
    TypeInferenceError,
)

X = np.array([[-1.0, 2.0], [3.0, -4.0]], np.float32)


def test_inputs_and_attributes_by_position_and_keyword() -> None:
    x = nd.array(X)
    expected = np.maximum(X, 0)
    for result in (
        nd.Activation(x, act_type="relu"),
        nd.Activation(x, "relu"),
        nd.Activation(data=x, act_type="relu"),
        nd.Activation(x, act_type="relu", name="ignored"),
        nd.op.Activation(x, act_type="relu"),
        nd.relu(x),
        x.relu(),
    ):
        assert np.array_equal(result.asnumpy(), expected)


def test_optional_inputs_may_be_left_out_or_none() -> None:
    x, weight, bias = nd.ones((2, 3)), nd.ones((4, 3)), nd.ones((4,))
    assert nd.FullyConnected(x, weight, bias, 4).asnumpy().tolist() == [[4] * 4] * 2
    result = nd.FullyConnected(x, weight, num_hidden=4, no_bias=True)
    assert result.asnumpy().tolist() == [[3] * 4] * 2
    result = nd.FullyConnected(x, weight, None, num_hidden=4, no_bias=True)
    assert result.asnumpy().tolist() == [[3] * 4] * 2


def test_variadic_inputs_are_positional() -> None:
    x = nd.array(X)
    assert nd.concat(x, x, x, dim=0).shape == (6, 2)
    assert nd.Concat(x, dim=1).shape == (2, 2)
    with pytest.raises(TypeError, match="list"):
        nd.concat([x, x], dim=0)


def test_several_outputs_are_returned_as_a_list() -> None:
    parts = nd.split(nd.array(X), num_outputs=2, axis=0)
    assert isinstance(parts, list)
    assert [part.asnumpy().tolist() for part in parts] == [[[-1, 2]], [[3, -4]]]
    assert nd.split(nd.array(X), num_outputs=1).shape == (2, 2)


def test_hidden_outputs_are_not_returned() -> None:
    x, one, zero = nd.array(X), nd.ones(2), nd.zeros(2)
    result = nd.BatchNorm(x, one, zero, zero, one, fix_gamma=False)
    # Batch norm adds epsilon, 1e-3, to the variance.
    assert np.allclose(result.asnumpy(), X, rtol=1e-2)


def test_results_are_written_to_out() -> None:
    x = nd.array(X)
    out = nd.zeros((2, 2))
    assert nd.relu(x, out=out) is out
    assert np.array_equal(out.asnumpy(), np.maximum(X, 0))
    first, second = nd.zeros((1, 2)), nd.zeros((1, 2))
    assert nd.split(x, num_outputs=2, axis=0, out=[first, second])[1] is second
    assert second.asnumpy().tolist() == [[3, -4]]


def test_out_may_be_the_input() -> None:
    x = nd.array(X)
    nd.softsign(x, out=x)
    assert np.allclose(x.asnumpy(), X / (1 + np.abs(X)))
    y = nd.array(X)
    nd.Activation(y, "softsign", out=y)
    assert np.allclose(y.asnumpy(), X / (1 + np.abs(X)))


def test_out_may_overlap_the_input() -> None:
    x = nd.arange(6)
    nd.broadcast_add(x[:5], x[1:], out=x[1:])
    assert x.asnumpy().tolist() == [0, 1, 3, 5, 7, 9]
    y = nd.array(X)
    nd.transpose(y, out=y)
    assert np.array_equal(y.asnumpy(), X.T)


def test_out_of_the_wrong_shape_or_dtype_is_refused() -> None:
    x = nd.array(X)
    with pytest.raises(ShapeError, match=r"relu.*\(3, 2\)"):
        nd.relu(x, out=nd.zeros((3, 2)))
    with pytest.raises(TypeInferenceError, match="float64"):
        nd.relu(x, out=nd.zeros((2, 2), dtype="float64"))
    with pytest.raises(MXNetError, match="out="):
        nd.relu(x, out=[nd.zeros((2, 2))] * 2)


def test_results_are_on_the_first_inputs_device() -> None:
    x, y = nd.ones(2, ctx=mx.cpu(1)), nd.ones(2)
    assert nd.relu(x).context == mx.cpu(1)
    assert (x + y).context == mx.cpu(1)


def test_batch_norm_updates_its_statistics_only_in_training() -> None:
    x, one, zero = nd.array(X), nd.ones(2), nd.zeros(2)
    mean, var = nd.zeros(2), nd.ones(2)
    nd.BatchNorm(x, one, zero, mean, var)
    assert mean.asnumpy().tolist() == [0, 0]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: nd.Activation(x, act_type="foo"), AttributeValueError, "act_type"),
        (lambda x: nd.Activation(x), AttributeValueError, "required"),
        (lambda x: nd.Activation(x, act_type="relu", foo=1), AttributeValueError, "'foo'"),
        (lambda x: nd.Activation(np.ones(3), act_type="relu"), TypeError, "data"),
        (lambda x: nd.Activation(act_type="relu"), GraphError, "data"),
        (lambda x: nd.Activation(x, "relu", data=x), TypeError, "two values"),
        (lambda x: nd.FullyConnected(x, num_hidden=3), GraphError, "weight"),
        (lambda x: nd.FullyConnected(x, x, x, num_hidden=3), ShapeError, "FullyConnected"),
        (lambda x: nd.elemwise_add(x, nd.ones((3, 3))), ShapeError, "elemwise_add"),
        (lambda x: nd.relu(x, 1, 2, 3), TypeError, "relu"),
        (lambda x: nd.relu(nd.array([])), ShapeError, "without elements"),
    ],
)
def test_errors_name_operator_and_argument(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(nd.array(X))


def test_unknown_operators_are_refused() -> None:
    with pytest.raises(AttributeError, match="did you mean 'Activation'"):
        nd.Activatoin  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute"):
        nd.ones(2).activate()


def test_functions_have_docstrings() -> None:
    assert nd.FullyConnected.__name__ == "FullyConnected"
    assert list(inspect.signature(nd.FullyConnected).parameters)[:4] == [
        "data",
        "weight",
        "bias",
        "num_hidden",
    ]
    assert "num_hidden" in nd.FullyConnected.__doc__
    assert "FullyConnected" in dir(nd)
    assert nd.FullyConnected is nd.FullyConnected


def test_namespaces_hold_operators() -> None:
    x = nd.array(X)
    assert nd._internal._plus_scalar(x, scalar=1).asnumpy().tolist() == (X + 1).tolist()
    assert "Activation" in dir(nd.op)
    for module in (nd.contrib, nd.linalg, nd.image, nd.sparse, nd.random):
        with pytest.raises(AttributeError, match="no attribute"):
            module.no_such_operator  # noqa: B018


def test_attributes_may_be_lists() -> None:
    x = nd.ones((1, 1, 4, 4))
    weight = nd.ones((1, 1, 2, 2))
    result = nd.Convolution(x, weight, kernel=[2, 2], num_filter=1, no_bias=True)
    assert result.asnumpy().tolist() == [[[[4.0] * 3] * 3]]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dtype_follows_the_input(dtype: str) -> None:
    assert nd.exp(nd.zeros(2, dtype=dtype)).dtype is np.dtype(dtype).type


def test_isinf_isfinite_and_isnan() -> None:
    x = nd.array([1.0, np.inf, -np.inf, np.nan])
    assert nd.contrib.isinf(x).asnumpy().tolist() == [0, 1, 1, 0]
    assert nd.contrib.isfinite(x).asnumpy().tolist() == [1, 0, 0, 0]
    assert nd.contrib.isnan(x).asnumpy().tolist() == [0, 0, 0, 1]
