"""A host's modules: binding, binding again, reshaping."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from app.domain.module import BindSpec, BucketShapes, InputDesc, ModuleKind
from app.link import calls
from served.perceptron import data_shape, label_shape


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (BindSpec(data_shapes=()), "data_shapes"),
        (BindSpec(data_shapes=(InputDesc(name="dat", shape=(2, 6)),)), "data_shapes[0].name"),
        (BindSpec(data_shapes=(data_shape(), data_shape())), "data_shapes[0].name"),
        (BindSpec(data_shapes=(data_shape(0),)), "data_shapes[0].shape"),
        (BindSpec(data_shapes=(data_shape(-1),)), "data_shapes[0].shape"),
        (BindSpec(data_shapes=(data_shape(dtype="complex64"),)), "data_shapes[0].dtype"),
        (BindSpec(data_shapes=(data_shape(dtype="int99"),)), "data_shapes[0].dtype"),
        (BindSpec(data_shapes=(data_shape(),), label_shapes=(label_shape(3),)), "data_shapes"),
        (
            BindSpec(data_shapes=(data_shape(),), label_shapes=(data_shape(),)),
            "label_shapes[0].name",
        ),
        (
            BindSpec(data_shapes=(data_shape(),), for_training=False, inputs_need_grad=True),
            "inputs_need_grad",
        ),
        (BindSpec(data_shapes=(data_shape(),), grad_req={"fc1_wieght": "null"}), "grad_req"),
        (
            BindSpec(data_shapes=(data_shape(),), buckets={"3": BucketShapes(data_shapes=())}),
            "buckets",
        ),
    ],
)
def test_invalid_shapes_are_refused_and_change_nothing(driver, make_network, spec, field):
    driver.create(make_network())
    refusal = driver.refusal(calls.Bind(module="net", spec=spec))
    assert refusal.field_name == field
    assert driver.describe()["stage"] == "created"
    driver.bind()
    before = driver.describe()["bind"]
    assert driver.refusal(calls.Bind(module="net", spec=spec)).field_name == field
    assert driver.describe()["bind"] == before


def test_a_module_too_large_for_memory_is_refused_before_allocating(driver, make_network):
    driver.create(make_network())
    spec = BindSpec(data_shapes=(data_shape(2**30),), label_shapes=(label_shape(2**30),))
    assert driver.refusal(calls.Bind(module="net", spec=spec)).code == "too_large"


def test_rebinding_keeps_parameters_and_optimizer(driver, toy_data):
    driver.ready()
    driver.step(toy_data)
    params = driver.params()
    before = driver.ask(calls.GetOptimizer(module="net"))[0]
    states = driver.ask(calls.GetOptimizerStates(module="net"))[1]["states"]
    driver.bind(batch=4)
    for name, value in driver.params().items():
        np.testing.assert_array_equal(value, params[name])
    after = driver.ask(calls.GetOptimizer(module="net"))[0]
    assert after["num_update"] == before["num_update"] == 1
    assert (before["rescale_grad"], after["rescale_grad"]) == (1 / 8, 1 / 4)
    restored = driver.ask(calls.GetOptimizerStates(module="net"))[1]["states"]
    assert restored.tobytes() == states.tobytes()


def test_an_optimizer_is_kept_while_the_module_is_bound_for_inference(driver, toy_data):
    driver.ready()
    driver.step(toy_data)
    states = driver.ask(calls.GetOptimizerStates(module="net"))[1]["states"]
    driver.bind(for_training=False)
    assert driver.describe()["stage"] == "initialized"
    assert driver.refusal(calls.Update(module="net")).code == "conflict"
    driver.bind()
    assert driver.describe()["stage"] == "ready"
    assert driver.ask(calls.GetOptimizer(module="net"))[0]["num_update"] == 1
    restored = driver.ask(calls.GetOptimizerStates(module="net"))[1]["states"]
    assert restored.tobytes() == states.tobytes()


def test_binding_to_shapes_the_parameters_do_not_fit_changes_nothing(driver):
    driver.ready()
    before = driver.describe()
    spec = BindSpec(data_shapes=(data_shape(features=7),), label_shapes=(label_shape(),))
    refusal = driver.refusal(calls.Bind(module="net", spec=spec))
    assert refusal.code == "invalid"
    assert "fc1_weight" in refusal.message
    assert driver.describe() == before


def test_reshape_changes_only_the_batch_size(driver, toy_data):
    driver.ready()
    params = driver.params()
    call = calls.Reshape(module="net", data_shapes=(data_shape(3),), label_shapes=(label_shape(3),))
    driver.ask(call)
    assert driver.describe()["outputs"][0]["shape"] == [3, 3]
    for name, value in driver.params().items():
        np.testing.assert_array_equal(value, params[name])
    wrong = dataclasses.replace(call, data_shapes=(data_shape(3, 9),))
    assert "fc1_weight" in driver.refusal(wrong).message
    assert driver.describe()["outputs"][0]["shape"] == [3, 3]


def test_a_module_kind_without_buckets_refuses_them(driver):
    driver.ready()
    shapes = BucketShapes(data_shapes=(data_shape(),))
    refusal = driver.refusal(calls.BindBucket(module="net", key="3", shapes=shapes))
    assert refusal.code == "conflict"
    assert driver.describe()["kind"] == ModuleKind.MODULE
