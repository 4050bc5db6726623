"""Requests are batched together only if the rows of a net are independent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from app.domain.module import BindSpec, InitSpec, InputDesc
from app.link import calls
from app.link.protocols import IncomingCall, Prepared

BATCH, FEATURES = 4, 6

data = mx.sym.Variable("data")
dense = mx.sym.FullyConnected(data, num_hidden=3, name="fc")
mixed = mx.sym.transpose(mx.sym.reshape(data, shape=(FEATURES, -1)))
shifted = mx.sym.broadcast_add(dense, mx.sym.mean(dense, axis=0, keepdims=True))
image = mx.sym.reshape(data, shape=(0, 3, 2))
steps_first = mx.sym.RNN(
    image,
    mx.sym.Variable("rnn_parameters", init=mx.init.Uniform()),
    mx.sym.zeros((1, 3, 2)),
    state_size=2,
    num_layers=1,
    mode="rnn_tanh",
    name="rnn",
)

DEPENDENT = {
    "softmax over the batch": mx.sym.softmax(dense, axis=0),
    "mean over the batch": shifted,
    "reshape that mixes rows": mixed,
    "time-major recurrence": mx.sym.reshape(steps_first, shape=(0, -1)),
    "normalized over the batch": mx.sym.broadcast_div(data, mx.sym.norm(data, axis=0)),
    "refuses numbers": mx.sym.take(
        mx.sym.Variable("rows_weight", shape=(2, 3)), data, mode="raise", name="take"
    ),
    "reversed rows": mx.sym.reverse(dense, axis=0),
}
STOCHASTIC = {
    "dropout that is always on": mx.sym.Dropout(dense, p=0.5, mode="always"),
    "noise": mx.sym.broadcast_add(dense, mx.sym.random.normal(shape=(1, 3))),
}
INDEPENDENT = {
    "perceptron": mx.sym.softmax(dense),
    "dropout": mx.sym.Dropout(dense, p=0.5),
    "moving averages": mx.sym.BatchNorm(dense, name="bn"),
    "norm of each instance": mx.sym.L2Normalization(image, mode="instance"),
    "norm of each channel": mx.sym.L2Normalization(image, mode="channel"),
    "instance norm": mx.sym.InstanceNorm(image, name="norm"),
    "embedding": mx.sym.Embedding(data, input_dim=5, output_dim=2, name="embed"),
    "relu and maximum": mx.sym.max(mx.sym.relu(image), axis=2),
}


def prepared(driver: Any, symbol: mx.sym.Symbol, *, zeros: bool = False, **asked: Any) -> Prepared:
    """Return a prepared prediction of one example."""
    driver.create(symbol, label_names=())
    spec = BindSpec(
        data_shapes=(InputDesc(name="data", shape=(BATCH, FEATURES)),), for_training=False
    )
    driver.ask(calls.Bind(module="net", spec=spec))
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=3)))
    if zeros:
        values = {name: np.zeros_like(value) for name, value in driver.params().items()}
        driver.ask(calls.SetParams(module="net"), **values)
    method, params = calls.to_call(calls.Predict(module="net", **asked))
    tensors = {"data": np.ones((1, FEATURES), np.float32)}
    found: Prepared = driver.host.prepare(IncomingCall(1, method, params, tensors))
    return found


@pytest.mark.parametrize("zeros", [False, True], ids=["initialized", "weights of zero"])
@pytest.mark.parametrize("name", DEPENDENT)
def test_nets_with_dependent_rows_are_never_batched(driver, name, zeros):
    assert prepared(driver, DEPENDENT[name], zeros=zeros).most_rows == 1


@pytest.mark.parametrize("name", STOCHASTIC)
def test_random_nets_are_never_batched(driver, name):
    assert prepared(driver, STOCHASTIC[name]).most_rows == 1


@pytest.mark.parametrize("zeros", [False, True], ids=["initialized", "weights of zero"])
@pytest.mark.parametrize("name", INDEPENDENT)
def test_other_nets_are(driver, name, zeros):
    assert prepared(driver, INDEPENDENT[name], zeros=zeros).most_rows >= BATCH


def test_batching_can_be_forbidden(driver):
    assert prepared(driver, INDEPENDENT["perceptron"], batches="never").most_rows == 1


def test_batching_can_be_forced(driver):
    assert prepared(driver, STOCHASTIC["noise"], batches="always").most_rows >= BATCH


def test_outputs_without_rows_are_never_batched_whatever_is_declared(driver):
    assert prepared(driver, mx.sym.sum(dense), batches="always").most_rows == 1
