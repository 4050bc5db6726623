"""Parameters of a host's modules. Expected values: the engine's own ``Module``."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

import core as mx
from app.domain.module import BindSpec, InitSpec
from app.link import calls
from served.perceptron import BATCH, FEATURES, data_shape, label_shape


def test_initializing_with_a_seed_matches_the_engine(driver, make_network):
    driver.create(make_network())
    driver.bind()
    spec = InitSpec(initializer="xavier", options={"magnitude": 2.0}, seed=11)
    driver.ask(calls.InitParams(module="net", spec=spec))

    position = mx.random.get_state()
    module = mx.mod.Module(make_network())
    module.bind([("data", (BATCH, FEATURES))], [("softmax_label", (BATCH,))])
    mx.random.seed(11)
    module.init_params(mx.init.Xavier(magnitude=2.0))
    mx.random.set_state(position)
    arguments, _ = module.get_params()
    for name, value in driver.params().items():
        np.testing.assert_array_equal(value, arguments[name].asnumpy())


def test_given_values_are_not_overwritten_by_the_initializer(driver, make_network):
    driver.create(make_network())
    driver.bind()
    bias = np.arange(5, dtype=np.float32)
    driver.ask(calls.InitParams(module="net", spec=InitSpec()), fc1_bias=bias)
    np.testing.assert_array_equal(driver.params()["fc1_bias"], bias)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (InitSpec(initializer="nonsense"), "initializer"),
        (InitSpec(initializer="load", options={"param": "/etc/passwd"}), "initializer"),
        (InitSpec(options={"sale": 1}), "initializer"),
        (InitSpec(options={"scale": "much"}), "initializer"),
    ],
)
def test_invalid_initializers_are_refused(driver, make_network, spec, field):
    driver.create(make_network())
    driver.bind()
    refusal = driver.refusal(calls.InitParams(module="net", spec=spec))
    assert (refusal.code, refusal.field_name) == ("invalid", field)
    assert driver.describe()["stage"] == "bound"


def test_parameters_are_read_back_as_set(driver):
    driver.ready()
    rng = np.random.default_rng(0)
    wanted = {
        name: rng.normal(size=value.shape).astype(np.float32)
        for name, value in driver.params().items()
    }
    driver.ask(calls.SetParams(module="net"), **wanted)
    for name, value in driver.params().items():
        np.testing.assert_array_equal(value, wanted[name])
    result, some = driver.ask(calls.GetParams(module="net", names=("fc2_bias",)))
    assert list(some) == ["fc2_bias"]
    assert result == {"arguments": ["fc2_bias"], "auxiliary": []}


def test_parameters_set_before_binding_are_kept(driver, make_network):
    driver.ready()
    params = driver.params()
    driver.create(make_network(), name="other")
    driver.ask(calls.SetParams(module="other"), **params)
    assert driver.describe("other")["stage"] == "created"
    spec = BindSpec(data_shapes=(data_shape(),), label_shapes=(label_shape(),))
    driver.ask(calls.Bind(module="other", spec=spec))
    assert driver.describe("other")["stage"] == "initialized"
    for name, value in driver.params("other").items():
        np.testing.assert_array_equal(value, params[name])


def test_parameters_set_before_binding_must_fit_the_shapes(driver, make_network):
    driver.ready()
    params = driver.params() | {"fc1_weight": np.zeros((5, 7), dtype=np.float32)}
    driver.create(make_network(), name="other")
    driver.ask(calls.SetParams(module="other"), **params)
    spec = BindSpec(data_shapes=(data_shape(),), label_shapes=(label_shape(),))
    refusal = driver.refusal(calls.Bind(module="other", spec=spec))
    assert "'fc1_weight'" in refusal.message
    assert driver.describe("other")["stage"] == "created"


@pytest.mark.parametrize(
    ("name", "value", "options", "field"),
    [
        ("fc1_wieght", np.zeros((5, 6)), {}, "fc1_wieght"),
        ("fc1_bias", np.zeros(4), {}, "fc1_bias"),
        ("fc1_bias", np.full(5, np.nan), {}, "fc1_bias"),
        ("fc1_bias", np.full(5, np.inf, dtype=np.float32), {}, "fc1_bias"),
        ("fc1_bias", None, {}, "fc1_bias"),
    ],
)
def test_invalid_parameters_are_refused_and_change_nothing(driver, name, value, options, field):
    driver.ready()
    before = driver.params()
    tensors = {key: array + 1 for key, array in before.items()}
    tensors.pop(name, None)
    if value is not None:
        tensors[name] = value
    refusal = driver.refusal(calls.SetParams(module="net", **options), **tensors)
    assert (refusal.code, refusal.field_name) == ("invalid", field)
    for key, array in driver.params().items():
        np.testing.assert_array_equal(array, before[key])


def test_missing_and_extra_parameters_can_be_allowed(driver):
    driver.ready()
    nan = np.full(5, np.nan, dtype=np.float32)
    call = calls.SetParams(module="net", allow_missing=True, allow_extra=True, allow_nonfinite=True)
    before = driver.params()
    driver.ask(call, fc1_bias=nan, stranger=np.zeros(1))
    after = driver.params()
    assert np.isnan(after.pop("fc1_bias")).all()
    for name, value in after.items():
        np.testing.assert_array_equal(value, before[name])


def test_nan_in_bfloat16_is_refused(driver):
    driver.ready()
    nan = np.full(5, np.nan, dtype=bfloat16)
    refusal = driver.refusal(calls.SetParams(module="net", allow_missing=True), fc1_bias=nan)
    assert (refusal.code, refusal.field_name) == ("invalid", "fc1_bias")
    assert "allow_nonfinite" in refusal.message


def test_missing_parameters_can_be_kept_only_where_there_are_some(driver, make_network):
    driver.create(make_network())
    driver.bind()
    call = calls.SetParams(module="net", allow_missing=True)
    assert driver.refusal(call, fc1_bias=np.zeros(5, dtype=np.float32)).code == "invalid"
    assert driver.describe()["stage"] == "bound"


def test_an_unknown_parameter_is_not_found(driver):
    driver.ready()
    refusal = driver.refusal(calls.GetParams(module="net", names=("fc1_wieght",)))
    assert refusal.code == "not_found"
    assert "fc1_weight" in refusal.message
