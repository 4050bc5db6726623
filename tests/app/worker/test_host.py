"""The host's calls on modules: life, binding, parameters, optimizer. Expected numbers: the engine's
own ``Module``, driven directly."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import core as mx
from app.domain.module import (
    SINGLE,
    BindSpec,
    BucketShapes,
    InitSpec,
    InputDesc,
    ModuleKind,
    ModuleRecord,
    OptimizerSpec,
)
from app.worker import calls
from app.worker.client import HostError
from app.worker.host import ModuleHost
from app.worker.loop import Priority

BATCH, FEATURES = 8, 6


def data_shape(batch: int = BATCH, features: int = FEATURES, **changes) -> InputDesc:
    return InputDesc(name="data", shape=(batch, features), **changes)


def label_shape(batch: int = BATCH) -> InputDesc:
    return InputDesc(name="softmax_label", shape=(batch,))


# -- the table of calls ------------------------------------------------------------------------


def test_every_call_is_answered_by_name_and_has_a_priority(driver):
    assert set(calls.CALL_NAMES.values()) == set(calls.CALL_NAMES[cls] for cls in calls.CALL_NAMES)
    for name in calls.CALL_NAMES.values():
        assert driver.host.priority(name) in Priority
    assert driver.host.priority("predict") is Priority.PREDICT
    assert driver.host.priority("describe_module") is Priority.CONTROL
    assert driver.host.priority("forward") is Priority.STEP


def test_an_unknown_method_is_refused(driver):
    with pytest.raises(HostError) as refusal:
        driver.host.priority("shutdown")
    assert refusal.value.code == "not_found"


def test_malformed_parameters_are_refused_with_the_field(driver):
    with pytest.raises(HostError) as refusal:
        driver.host.handle("describe_module", {"module": 3}, {})
    assert (refusal.value.code, refusal.value.field_name) == ("invalid", "module")
    with pytest.raises(HostError) as refusal:
        driver.host.handle("describe_module", {"module": "net", "extra": 1}, {})
    assert refusal.value.field_name == "extra"


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(Exception, match="gpu"):
        ModuleHost("gpu(63)", print)


def test_executor_info_says_what_is_there(driver):
    driver.ready()
    info, _ = driver.ask(calls.ExecutorInfo())
    assert info["device"] == "cpu(0)"
    assert info["rss_bytes"] > 2**20
    assert info["available_bytes"] > 2**20
    assert [module["name"] for module in info["modules"]] == ["net"]
    assert info["jobs"] == []


# -- life --------------------------------------------------------------------------------------


def test_a_module_goes_through_its_stages(driver, make_network):
    driver.create(make_network())
    assert driver.describe()["stage"] == "CREATED"
    driver.bind()
    assert driver.describe()["stage"] == "BOUND"
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=1)))
    assert driver.describe()["stage"] == "INITIALIZED"
    driver.ask(calls.InitOptimizer(module="net", spec=OptimizerSpec()))
    description = driver.describe()
    assert description["stage"] == "READY"
    assert description["outputs"] == [
        {"name": "softmax_output", "shape": [BATCH, 3], "dtype": "float32"}
    ]
    roles = {row["name"]: (row["role"], row["shape"]) for row in description["arguments"]}
    assert roles["data"] == ("data", [BATCH, FEATURES])
    assert roles["fc1_weight"] == ("parameter", [5, FEATURES])
    assert roles["softmax_label"] == ("label", [BATCH])
    assert description["memory"]["parameters"] > 0


@pytest.mark.parametrize(
    ("call", "stage"),
    [
        (calls.Predict(module="net"), "CREATED"),
        (calls.Forward(module="net"), "BOUND"),
        (calls.GetParams(module="net"), "BOUND"),
        (calls.Update(module="net"), "INITIALIZED"),
        (calls.GetOptimizerStates(module="net"), "INITIALIZED"),
        (calls.InitOptimizer(module="net", spec=OptimizerSpec()), "BOUND"),
        (calls.InitParams(module="net", spec=InitSpec()), "CREATED"),
        (calls.SaveCheckpoint(module="net", root="/nowhere", epoch=1), "BOUND"),
    ],
)
def test_a_call_before_its_stage_says_what_comes_first(driver, make_network, call, stage):
    driver.create(make_network())
    if stage != "CREATED":
        driver.bind()
    if stage == "INITIALIZED":
        driver.ask(calls.InitParams(module="net", spec=InitSpec()))
    refusal = driver.refusal(call)
    assert refusal.code == "wrong_stage"
    assert f"the module is {stage}; first call POST /v1/modules/net/" in refusal.message
    assert driver.describe()["stage"] == stage


def test_names_are_taken_once_and_free_again_after_deletion(driver, make_network):
    record = driver.create(make_network())
    assert driver.refusal(calls.CreateModule(record=record)).code == "already_exists"
    driver.ask(calls.DeleteModule(module="net"))
    assert driver.refusal(calls.DescribeModule(module="net")).code == "not_found"
    assert driver.ask(calls.ExecutorInfo())[0]["modules"] == []
    driver.create(make_network())


def test_the_generation_is_that_of_the_record(driver, make_network):
    driver.create(make_network(), generation=7)
    assert driver.describe()["generation"] == 7


# -- bad symbols and names ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "damaged"),
        ('{"nodes": [], "arg_nodes": [], "heads": []}', None),
        (
            '{"nodes":[{"op":"Nonsense","name":"n","inputs":[]}],"arg_nodes":[],"heads":[[0,0,0]]}',
            "unknown_operator",
        ),
    ],
)
def test_a_symbol_that_is_none_is_refused_and_nothing_is_held(driver, text, code):
    record = ModuleRecord(name="net", symbols={SINGLE: text})
    refusal = driver.refusal(calls.CreateModule(record=record))
    assert refusal.field_name == "symbol"
    if code is not None:
        assert refusal.code == code
    assert driver.ask(calls.ExecutorInfo())[0]["modules"] == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"data_names": ("dat",)}, "data_names"),
        ({"fixed_param_names": ("fc9_weight",)}, "fixed_param_names"),
        ({"state_names": ("h",)}, "state_names"),
        ({"label_names": ("lable",)}, "label_names"),
        ({"label_names": ()}, "label_names"),
        ({"contexts": ("tpu(0)",)}, "contexts"),
        ({"contexts": ("gpu(63)",)}, "contexts"),
        ({"default_bucket_key": "10"}, "default_bucket_key"),
        ({"default_bucket_key": "{"}, "default_bucket_key"),
    ],
)
def test_names_that_the_symbol_does_not_have_are_refused(driver, make_network, changes, field):
    record = ModuleRecord(name="net", symbols={SINGLE: make_network().tojson()}, **changes)
    refusal = driver.refusal(calls.CreateModule(record=record))
    assert refusal.field_name == field
    assert refusal.code == "invalid"


def test_a_network_without_a_loss_needs_no_labels(driver):
    net = mx.sym.softmax(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc"))
    driver.create(net)
    assert driver.describe()["label_names"] == []


# -- binding -----------------------------------------------------------------------------------


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
def test_bad_shapes_are_refused_and_the_module_stays_as_it_is(driver, make_network, spec, field):
    driver.create(make_network())
    refusal = driver.refusal(calls.Bind(module="net", spec=spec))
    assert refusal.field_name == field
    assert driver.describe()["stage"] == "CREATED"
    driver.bind()
    before = driver.describe()["bind"]
    assert driver.refusal(calls.Bind(module="net", spec=spec)).field_name == field
    assert driver.describe()["bind"] == before


def test_what_does_not_fit_into_memory_is_refused_before_it_is_allocated(driver, make_network):
    driver.create(make_network())
    spec = BindSpec(data_shapes=(data_shape(2**30),), label_shapes=(label_shape(2**30),))
    assert driver.refusal(calls.Bind(module="net", spec=spec)).code == "too_large"


def test_binding_again_keeps_parameters_and_optimizer(driver, toy_data):
    driver.ready()
    step(driver, toy_data)
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


def test_an_optimizer_waits_while_the_module_is_bound_for_inference(driver, toy_data):
    driver.ready()
    step(driver, toy_data)
    states = driver.ask(calls.GetOptimizerStates(module="net"))[1]["states"]
    driver.bind(for_training=False)
    assert driver.describe()["stage"] == "INITIALIZED"
    assert driver.refusal(calls.Update(module="net")).code == "conflict"
    driver.bind()
    assert driver.describe()["stage"] == "READY"
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


def test_reshape_changes_the_batch_and_nothing_else(driver, toy_data):
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


# -- parameters --------------------------------------------------------------------------------


def test_initializing_with_a_seed_gives_the_engines_numbers(driver, make_network):
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


def test_given_values_are_left_alone_by_the_initializer(driver, make_network):
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
def test_bad_initializers_are_refused(driver, make_network, spec, field):
    driver.create(make_network())
    driver.bind()
    refusal = driver.refusal(calls.InitParams(module="net", spec=spec))
    assert (refusal.code, refusal.field_name) == ("invalid", field)
    assert driver.describe()["stage"] == "BOUND"


def test_parameters_come_back_as_they_were_set(driver):
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


def test_parameters_set_before_binding_are_there_after_it(driver, make_network):
    driver.ready()
    params = driver.params()
    driver.create(make_network(), name="other")
    driver.ask(calls.SetParams(module="other"), **params)
    assert driver.describe("other")["stage"] == "CREATED"
    spec = BindSpec(data_shapes=(data_shape(),), label_shapes=(label_shape(),))
    driver.ask(calls.Bind(module="other", spec=spec))
    assert driver.describe("other")["stage"] == "INITIALIZED"
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
    assert driver.describe("other")["stage"] == "CREATED"


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
def test_bad_parameters_are_refused_and_none_is_changed(driver, name, value, options, field):
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


def test_what_is_refused_by_default_can_be_allowed(driver):
    driver.ready()
    nan = np.full(5, np.nan, dtype=np.float32)
    call = calls.SetParams(module="net", allow_missing=True, allow_extra=True, allow_nonfinite=True)
    before = driver.params()
    driver.ask(call, fc1_bias=nan, stranger=np.zeros(1))
    after = driver.params()
    assert np.isnan(after.pop("fc1_bias")).all()
    for name, value in after.items():
        np.testing.assert_array_equal(value, before[name])


def test_missing_parameters_cannot_be_kept_where_there_are_none(driver, make_network):
    driver.create(make_network())
    driver.bind()
    call = calls.SetParams(module="net", allow_missing=True)
    assert driver.refusal(call, fc1_bias=np.zeros(5, dtype=np.float32)).code == "invalid"
    assert driver.describe()["stage"] == "BOUND"


def test_an_unknown_parameter_cannot_be_fetched(driver):
    driver.ready()
    refusal = driver.refusal(calls.GetParams(module="net", names=("fc1_wieght",)))
    assert refusal.code == "not_found"
    assert "fc1_weight" in refusal.message


# -- optimizer ---------------------------------------------------------------------------------


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
def test_bad_optimizers_are_refused(driver, make_network, spec, field):
    driver.create(make_network(), contexts=("cpu(0)", "cpu(1)"))
    driver.bind()
    driver.ask(calls.InitParams(module="net", spec=InitSpec()))
    refusal = driver.refusal(calls.InitOptimizer(module="net", spec=spec))
    assert refusal.code == "invalid"
    assert refusal.field_name == field
    assert driver.describe()["stage"] == "INITIALIZED"


def test_the_learning_rate_can_be_changed_unless_a_scheduler_gives_it(driver):
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


def test_states_come_back_as_they_were(driver, toy_data):
    driver.ready()
    step(driver, toy_data)
    states = driver.ask(calls.GetOptimizerStates(module="net"))[1]["states"]
    params = driver.params()
    step(driver, toy_data)
    expected = driver.params()
    driver.ask(calls.SetParams(module="net"), **params)
    driver.ask(calls.SetOptimizerStates(module="net"), states=states)
    step(driver, toy_data)
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
def test_bad_states_are_refused_and_those_there_stay(driver, toy_data, states):
    driver.ready()
    step(driver, toy_data)
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
    batch = {"data": toy_data["data"][:BATCH], "softmax_label": toy_data["softmax_label"][:BATCH]}
    for name in ("net", "other"):
        driver.ask(calls.Forward(module=name, backward=True), **batch)
        driver.ask(calls.Update(module=name))
    states = driver.ask(calls.GetOptimizerStates(module="other"))[1]["states"]
    refusal = driver.refusal(calls.SetOptimizerStates(module="net"), states=states)
    assert refusal.code == "invalid_shape"


def test_a_module_kind_that_has_no_buckets_refuses_them(driver):
    driver.ready()
    shapes = BucketShapes(data_shapes=(data_shape(),))
    refusal = driver.refusal(calls.BindBucket(module="net", key="3", shapes=shapes))
    assert refusal.code == "conflict"
    assert driver.describe()["kind"] == ModuleKind.MODULE


def step(driver, data) -> None:
    """Train one batch."""
    batch = {"data": data["data"][:BATCH], "softmax_label": data["softmax_label"][:BATCH]}
    driver.ask(calls.Forward(module="net", backward=True), **batch)
    driver.ask(calls.Update(module="net"))
