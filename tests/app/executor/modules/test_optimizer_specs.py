"""Optimizers of a host's modules: created, changed, their states saved and loaded."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from app.domain.module import BindSpec, InitSpec, OptimizerSpec
from app.link import calls
from served.perceptron import data_shape, label_shape


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (OptimizerSpec(name="sgdd"), "name"),
        (OptimizerSpec(options={"learning_rat": 1}), "options.learning_rat"),
        (OptimizerSpec(options={"learning_rate": "much"}), "options.learning_rate"),
        (OptimizerSpec(options={"sym": None}), "options.sym"),
        (OptimizerSpec(options={"lr_scheduler": "factor"}), "options.lr_scheduler"),
        (
            OptimizerSpec(options={"lr_scheduler": {"name": "step"}}),
            "options.lr_scheduler.name",
        ),
        (
            OptimizerSpec(options={"lr_scheduler": {"name": "factor", "stp": 3}}),
            "options.lr_scheduler.stp",
        ),
        (
            OptimizerSpec(options={"lr_scheduler": {"name": "factor", "step": 0}}),
            "options.lr_scheduler",
        ),
        (OptimizerSpec(kvstore="distant"), "kvstore"),
    ],
)
def test_invalid_optimizers_are_refused(driver, make_network, spec, field):
    driver.create(make_network(), contexts=("cpu(0)", "cpu(1)"))
    driver.bind()
    driver.ask(calls.InitParams(module="net", spec=InitSpec()))
    refusal = driver.refusal(calls.InitOptimizer(module="net", spec=spec))
    assert refusal.code == "invalid"
    assert refusal.field_name == field
    assert driver.describe()["stage"] == "initialized"


def test_the_learning_rate_can_be_changed_unless_scheduled(driver):
    driver.ready()
    driver.ask(calls.SetLearningRate(module="net", learning_rate=0.25))
    assert driver.ask(calls.GetOptimizer(module="net"))[0]["learning_rate"] == 0.25
    assert driver.refusal(calls.SetLearningRate(module="net", learning_rate=-1)).code == "invalid"
    scheduler = {"name": "factor", "step": 2, "factor": 0.5}
    spec = OptimizerSpec(options={"learning_rate": 0.4, "lr_scheduler": scheduler})
    driver.ask(calls.InitOptimizer(module="net", spec=spec))
    assert driver.ask(calls.GetOptimizer(module="net"))[0]["learning_rate"] == 0.4
    refusal = driver.refusal(calls.SetLearningRate(module="net", learning_rate=0.1))
    assert refusal.code == "conflict"


def test_states_are_read_back_as_set(driver, toy_data):
    driver.ready()
    driver.step(toy_data)
    states = driver.ask(calls.GetOptimizerStates(module="net"))[1]["states"]
    params = driver.params()
    driver.step(toy_data)
    expected = driver.params()
    driver.ask(calls.SetParams(module="net"), **params)
    driver.ask(calls.SetOptimizerStates(module="net"), states=states)
    driver.step(toy_data)
    for name, value in driver.params().items():
        np.testing.assert_array_equal(value, expected[name])


@pytest.mark.parametrize(
    "states",
    [
        b"no pickle",
        b"",
        b"cos\nsystem\n(S'true'\ntR.",
        mx.optimizer.get_updater(mx.optimizer.create("sgd")).get_states()[:-1],
    ],
)
def test_invalid_states_are_refused_and_the_old_ones_kept(driver, toy_data, states):
    driver.ready()
    driver.step(toy_data)
    before = driver.ask(calls.GetOptimizerStates(module="net"))[1]["states"]
    sent = np.frombuffer(states, dtype=np.uint8)
    refusal = driver.refusal(calls.SetOptimizerStates(module="net"), states=sent)
    assert refusal.field_name == "states"
    after = driver.ask(calls.GetOptimizerStates(module="net"))[1]["states"]
    assert after.tobytes() == before.tobytes()


def test_states_of_another_model_are_refused(driver, toy_data):
    driver.ready()
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    driver.create(mx.sym.SoftmaxOutput(net, name="softmax"), name="other")
    spec = BindSpec(data_shapes=(data_shape(),), label_shapes=(label_shape(),))
    driver.ask(calls.Bind(module="other", spec=spec))
    driver.ask(calls.InitParams(module="other", spec=InitSpec()))
    momentum = OptimizerSpec(options={"momentum": 0.9})
    driver.ask(calls.InitOptimizer(module="other", spec=momentum))
    driver.step(toy_data)
    driver.step(toy_data, "other")
    states = driver.ask(calls.GetOptimizerStates(module="other"))[1]["states"]
    refusal = driver.refusal(calls.SetOptimizerStates(module="net"), states=states)
    assert refusal.code == "invalid_shape"
