"""Symbols cut at an internal output and given a new last layer."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from app.domain.origin import Head
from app.errors.tree import Invalid
from app.executor.modules.symbol_surgery import cut


def network() -> mx.sym.Symbol:
    """Return two layers with a batch normalization between, and a loss."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=4, name="fc1")
    net = mx.sym.BatchNorm(net, name="bn")
    net = mx.sym.Activation(net, act_type="relu", name="relu1")
    net = mx.sym.FullyConnected(net, num_hidden=3, name="fc2")
    return mx.sym.SoftmaxOutput(net, name="softmax")


BELOW = ["data", "fc1_weight", "fc1_bias", "bn_gamma", "bn_beta"]


@pytest.mark.parametrize("output", ["relu1_output", "relu1"])
def test_a_symbol_is_cut_below_an_output(output: str) -> None:
    net = cut(network(), output, None)
    assert net.list_arguments() == BELOW
    assert net.list_outputs() == ["relu1_output"]
    assert net.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]


def test_a_new_head_is_attached() -> None:
    net = cut(network(), "relu1", Head(num_hidden=5))
    assert net.list_arguments() == [*BELOW, "fc_new_weight", "fc_new_bias", "softmax_label"]
    _, (output,), _ = net.infer_shape(data=(2, 7))
    assert output == (2, 5)
    plain = cut(network(), "relu1", Head(name="fc2", num_hidden=5, no_bias=True))
    assert plain.list_arguments() == [*BELOW, "fc2_weight", "softmax_label"]


def test_the_graph_below_is_unchanged() -> None:
    whole, part = network(), cut(network(), "relu1", Head(num_hidden=5))
    attributes = whole.attr_dict()
    assert {name: part.attr_dict()[name] for name in ("fc1", "relu1")} == {
        name: attributes[name] for name in ("fc1", "relu1")
    }
    arrays = {"data": np.ones((2, 7)), "fc1_weight": np.ones((4, 7)), "fc1_bias": np.zeros(4)}
    outputs = []
    for symbol in (whole.get_internals()["fc1_output"], part.get_internals()["fc1_output"]):
        arguments = {name: mx.nd.array(value) for name, value in arrays.items()}
        outputs.append(symbol.bind(mx.cpu(), arguments).forward()[0].asnumpy())
    np.testing.assert_array_equal(*outputs)
    np.testing.assert_array_equal(outputs[0], np.full((2, 4), 7))


@pytest.mark.parametrize(
    ("output", "named"),
    [
        ("relu_output", "relu1_output"),
        ("fc1_outptu", "fc1_output"),
        ("zzzz", "softmax_output"),
        ("fc1_weight", "fc1_output"),
        ("bn_moving_mean", "bn_output"),
        ("data", "relu1_output"),
    ],
)
def test_an_unknown_output_suggests_the_nearest(output: str, named: str) -> None:
    with pytest.raises(Invalid, match=f"output: got .*{named}"):
        cut(network(), output, None)


def test_names_in_use_are_refused() -> None:
    with pytest.raises(Invalid, match=r"head\.name: got fc1, .*'fc1_weight'"):
        cut(network(), "relu1", Head(name="fc1", num_hidden=2))
    with pytest.raises(Invalid, match=r"output: got softmax, .*'softmax_label'"):
        cut(network(), "softmax", Head(num_hidden=2))
