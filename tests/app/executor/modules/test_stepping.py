"""Step-level calls; expected values: the engine's ``Module``, driven directly."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from app.domain.module import SINGLE, BindSpec, InitSpec, InputDesc, ModuleRecord, OptimizerSpec
from app.link import calls

BATCH = 8


def batches(data, count: int = 3):
    for start in range(0, count * BATCH, BATCH):
        rows = slice(start, start + BATCH)
        yield {name: array[rows] for name, array in data.items()}


def test_steps_match_the_engines_module(driver, make_network, toy_data):
    driver.ready(learning_rate=0.2, momentum=0.9, wd=0.001)
    module = mx.mod.Module(make_network())
    module.bind([("data", (BATCH, 6))], [("softmax_label", (BATCH,))])
    module.set_params({k: mx.nd.array(v) for k, v in driver.params().items()}, {})
    module.init_optimizer(optimizer_params={"learning_rate": 0.2, "momentum": 0.9, "wd": 0.001})
    for batch in batches(toy_data):
        _, outputs = driver.ask(calls.Forward(module="net", is_train=True), **batch)
        driver.ask(calls.Backward(module="net"))
        driver.ask(calls.Update(module="net"))
        label = mx.nd.array(batch["softmax_label"])
        module.forward_backward(mx.io.DataBatch([mx.nd.array(batch["data"])], [label]))
        np.testing.assert_array_equal(outputs["softmax_output"], module.get_outputs()[0].asnumpy())
        module.update()
    expected, _ = module.get_params()
    for name, value in driver.params().items():
        np.testing.assert_array_equal(value, expected[name].asnumpy())


def test_forward_backward_equals_the_two_calls(driver, fresh_driver, toy_data):
    other = fresh_driver()
    driver.ready()
    other.ready()
    for batch in batches(toy_data):
        driver.ask(calls.Forward(module="net", backward=True, with_outputs=False), **batch)
        driver.ask(calls.Update(module="net"))
        other.ask(calls.Forward(module="net", is_train=True), **batch)
        other.ask(calls.Backward(module="net"))
        other.ask(calls.Update(module="net"))
    for name, value in driver.params().items():
        np.testing.assert_array_equal(value, other.params()[name])


def test_predictions_between_forward_and_backward_change_nothing(
    driver, fresh_driver, make_network, toy_data
):
    def train(one, disturb: bool) -> dict[str, np.ndarray]:
        one.create(make_network(dropout=0.5, batch_norm=True))
        one.bind()
        one.ask(calls.InitParams(module="net", spec=InitSpec(seed=3)))
        one.ask(calls.InitOptimizer(module="net", spec=OptimizerSpec(options={"momentum": 0.9})))
        for batch in batches(toy_data):
            one.ask(calls.Forward(module="net", is_train=True, is_marked=True), **batch)
            if disturb:
                for rows in (1, 3, BATCH, 40):
                    one.ask(calls.Predict(module="net"), data=toy_data["data"][:rows])
            one.ask(calls.Backward(module="net", is_marked=True))
            if disturb:
                one.ask(calls.Predict(module="net"), data=toy_data["data"])
            one.ask(calls.Update(module="net"))
        return one.params()

    expected = train(fresh_driver(), disturb=False)
    for name, value in train(driver, disturb=True).items():
        np.testing.assert_array_equal(value, expected[name])


def test_random_numbers_of_other_modules_change_nothing(
    driver, fresh_driver, make_network, toy_data
):
    def train(one, with_other: bool) -> dict[str, np.ndarray]:
        for name in ("net", "other")[: 2 if with_other else 1]:
            one.create(make_network(dropout=0.5), name=name)
            spec = BindSpec(
                data_shapes=(InputDesc(name="data", shape=(BATCH, 6)),),
                label_shapes=(InputDesc(name="softmax_label", shape=(BATCH,)),),
            )
            one.ask(calls.Bind(module=name, spec=spec))
            one.ask(calls.InitParams(module=name, spec=InitSpec(seed=3)))
            one.ask(calls.InitOptimizer(module=name, spec=OptimizerSpec()))
        for batch in batches(toy_data):
            for name in ("net", "other")[: 2 if with_other else 1]:
                one.ask(calls.Forward(module=name, backward=True), **batch)
                one.ask(calls.Update(module=name))
        return one.params()

    expected = train(fresh_driver(), with_other=False)
    for name, value in train(driver, with_other=True).items():
        np.testing.assert_array_equal(value, expected[name])


def test_gradients_of_the_inputs(driver, make_network, toy_data):
    driver.create(make_network())
    driver.bind(inputs_need_grad=True)
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=3)))
    batch = next(batches(toy_data))
    _, outputs = driver.ask(calls.Forward(module="net", backward=True), **batch)
    _, grads = driver.ask(calls.GetInputGrads(module="net"))
    # By the chain rule, from the gradient of softmax with cross-entropy.
    params = {name: value.astype(np.float64) for name, value in driver.params().items()}
    hidden = np.tanh(batch["data"] @ params["fc1_weight"].T + params["fc1_bias"])
    top = outputs["softmax_output"] - np.eye(3)[batch["softmax_label"]]
    expected = (top @ params["fc2_weight"] * (1 - hidden**2)) @ params["fc1_weight"]
    np.testing.assert_allclose(grads["data"], expected, rtol=1e-4, atol=1e-6)


def test_gradients_of_outputs_that_are_not_losses(driver):
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, no_bias=True, name="fc")
    record = ModuleRecord(name="net", symbols={SINGLE: net.tojson()})
    driver.ask(calls.CreateModule(record=record))
    spec = BindSpec(data_shapes=(InputDesc(name="data", shape=(4, 3)),), inputs_need_grad=True)
    driver.ask(calls.Bind(module="net", spec=spec))
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=1)))
    rng = np.random.default_rng(0)
    data = rng.normal(size=(4, 3)).astype(np.float32)
    top = rng.normal(size=(4, 2)).astype(np.float32)
    driver.ask(calls.Forward(module="net", is_train=True), data=data)
    assert driver.refusal(calls.Backward(module="net"), fc_outptu=top).field_name == "fc_outptu"
    driver.ask(calls.Backward(module="net"), fc_output=top)
    _, grads = driver.ask(calls.GetInputGrads(module="net"))
    expected = top @ driver.params()["fc_weight"]
    np.testing.assert_allclose(grads["data"], expected, rtol=1e-5)


def test_a_new_batch_size_is_bound_automatically(driver, toy_data):
    driver.ready()
    batch = {name: array[:5] for name, array in toy_data.items()}
    _, outputs = driver.ask(calls.Forward(module="net"), **batch)
    _, expected = driver.ask(calls.Predict(module="net"), data=batch["data"])
    np.testing.assert_allclose(outputs["softmax_output"], expected["softmax_output"], rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"data": None}, "data"),
        ({"softmax_label": None}, "softmax_label"),
        ({"extra": np.zeros(8)}, "extra"),
        ({"data": np.zeros((8, 7), dtype=np.float32)}, "data"),
        ({"data": np.zeros((8, 6, 1), dtype=np.float32)}, "data"),
        ({"data": np.zeros((0, 6), dtype=np.float32)}, "data"),
        ({"softmax_label": np.zeros(3)}, "softmax_label"),
    ],
)
def test_invalid_batches_are_refused_and_the_module_still_works(driver, toy_data, change, field):
    driver.ready()
    params = driver.params()
    batch = next(batches(toy_data))
    tensors = {name: array for name, array in {**batch, **change}.items() if array is not None}
    refusal = driver.refusal(calls.Forward(module="net", backward=True), **tensors)
    assert refusal.code in ("invalid", "invalid_shape")
    assert refusal.field_name == field
    for name, value in driver.params().items():
        np.testing.assert_array_equal(value, params[name])
    driver.ask(calls.Forward(module="net", backward=True), **batch)
    driver.ask(calls.Update(module="net"))


def test_a_pass_that_would_delay_everyone_is_refused(driver, toy_data):
    driver.ready()
    features = toy_data["data"].shape[1]
    many = np.broadcast_to(np.float32(1), ((1 << 20) // features + 1, features))
    refusal = driver.refusal(calls.Forward(module="net", is_train=False), data=many)
    assert (refusal.code, refusal.field_name) == ("invalid", "data")
    assert "smaller batches" in refusal.errors[0]["hint"]
    driver.ask(calls.Forward(module="net", is_train=False), data=many[:-1])


def test_calls_out_of_order_are_refused(driver, toy_data):
    driver.ready()
    batch = next(batches(toy_data))
    assert driver.refusal(calls.GetOutputs(module="net")).code == "conflict"
    assert driver.refusal(calls.Backward(module="net")).code == "wrong_stage"
    driver.ask(calls.Forward(module="net", is_train=False), **batch)
    assert driver.refusal(calls.Backward(module="net")).code == "wrong_stage"
    driver.ask(calls.Forward(module="net", is_train=True), **batch)
    assert driver.refusal(calls.Update(module="net")).code == "wrong_stage"
    assert driver.refusal(calls.GetInputGrads(module="net")).code == "wrong_stage"
    driver.ask(calls.Backward(module="net"))
    driver.ask(calls.Update(module="net"))
    driver.bind(batch=4)
    assert driver.refusal(calls.GetOutputs(module="net")).code == "conflict"


def test_training_needs_bound_labels(driver, make_network, toy_data):
    driver.create(make_network())
    spec = BindSpec(data_shapes=(InputDesc(name="data", shape=(BATCH, 6)),))
    driver.ask(calls.Bind(module="net", spec=spec))
    driver.ask(calls.InitParams(module="net", spec=InitSpec()))
    batch = next(batches(toy_data))
    refusal = driver.refusal(calls.Forward(module="net", backward=True), data=batch["data"])
    assert refusal.code == "conflict"
    assert "label_shapes" in refusal.message
    refusal = driver.refusal(calls.Forward(module="net"), **batch)
    assert refusal.field_name == "softmax_label"
    driver.ask(calls.Forward(module="net", is_train=False), data=batch["data"])


# -- sequence and generation -------------------------------------------------------------------


def test_a_repeated_call_gets_the_first_answer(driver, toy_data):
    driver.ready()
    batch = next(batches(toy_data))
    first = driver.ask(calls.Forward(module="net", backward=True, sequence=1), **batch)
    again = driver.ask(calls.Forward(module="net", backward=True, sequence=1), **batch)
    assert first[0] == again[0] == {"generation": 1, "sequence": 1}
    np.testing.assert_array_equal(first[1]["softmax_output"], again[1]["softmax_output"])
    result, _ = driver.ask(calls.Update(module="net", sequence=2))
    params = driver.params()
    assert driver.ask(calls.Update(module="net", sequence=2))[0] == result
    for name, value in driver.params().items():
        np.testing.assert_array_equal(value, params[name])
    assert driver.ask(calls.GetOptimizer(module="net"))[0]["num_update"] == 1
    assert driver.describe()["sequence"] == 2


@pytest.mark.parametrize("sequence", [0, 2, 5])
def test_a_sequence_number_out_of_order_is_refused(driver, toy_data, sequence):
    driver.ready()
    batch = next(batches(toy_data))
    refusal = driver.refusal(calls.Forward(module="net", sequence=sequence), **batch)
    assert refusal.code == "conflict"
    assert f"sequence {sequence}, expected 1" in refusal.message


def test_a_refused_call_uses_no_number(driver, toy_data):
    driver.ready()
    assert driver.refusal(calls.Update(module="net", sequence=1)).code == "wrong_stage"
    driver.ask(calls.Forward(module="net", sequence=1), **next(batches(toy_data)))


def with_moving_averages(driver, make_network) -> None:
    driver.create(make_network(batch_norm=True))
    driver.bind()
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=3)))


@pytest.mark.parametrize("backward", [False, True])
def test_a_refused_pass_leaves_nothing_unsaved(driver, make_network, toy_data, backward):
    with_moving_averages(driver, make_network)
    batch = next(batches(toy_data))
    call = calls.Forward(module="net", is_train=True, backward=backward, is_marked=True)
    refusal = driver.refusal(call, **{**batch, "data": batch["data"][:, :5]})
    assert refusal.code == "invalid_shape"
    assert not driver.describe()["has_unsaved"]
    driver.ask(call, **batch)
    assert driver.describe()["has_unsaved"]
    driver.refusal(call, **{**batch, "data": batch["data"][:, :5]})
    assert driver.describe()["has_unsaved"]


def test_a_pass_that_fails_halfway_is_not_a_refusal(driver, make_network, toy_data, monkeypatch):
    with_moving_averages(driver, make_network)
    before = driver.params()
    backward = mx.mod.Module.backward

    def fail_behind(self, out_grads=None):
        backward(self, out_grads)
        raise mx.MXNetError("the second device is gone")

    monkeypatch.setattr(mx.mod.Module, "backward", fail_behind)
    call = calls.Forward(module="net", backward=True, is_marked=True)
    refusal = driver.refusal(call, **next(batches(toy_data)))
    assert refusal.code == "internal"
    assert "the second device is gone" in refusal.message
    assert driver.describe()["has_unsaved"]
    assert any((value != before[name]).any() for name, value in driver.params().items())


def test_another_generation_is_refused(driver, make_network, toy_data):
    driver.create(make_network(), generation=4)
    driver.bind()
    driver.ask(calls.InitParams(module="net", spec=InitSpec()))
    batch = next(batches(toy_data))
    refusal = driver.refusal(calls.Forward(module="net", generation=3), **batch)
    assert refusal.code == "precondition_failed"
    result, _ = driver.ask(calls.Forward(module="net", generation=4), **batch)
    assert result["generation"] == 4


# -- several devices, states -------------------------------------------------------------------


def test_several_devices_train_like_one(driver, fresh_driver, make_network, toy_data):
    one, two = fresh_driver(), driver
    for each, contexts in ((one, ("cpu(0)",)), (two, ("cpu(0)", "cpu(1)"))):
        each.create(make_network(), contexts=contexts)
        each.bind()
        each.ask(calls.InitParams(module="net", spec=InitSpec(seed=3)))
        options = {"learning_rate": 0.1, "momentum": 0.9}
        each.ask(calls.InitOptimizer(module="net", spec=OptimizerSpec(options=options)))
        for batch in batches(toy_data):
            each.ask(calls.Forward(module="net", backward=True), **batch)
            each.ask(calls.Update(module="net"))
    for name, value in two.params().items():
        np.testing.assert_allclose(value, one.params()[name], rtol=1e-5, atol=1e-6)


def test_devices_pull_all_rows_of_row_sparse_parameters(driver, fresh_driver, toy_data):
    weight = mx.sym.Variable("weight", stype="row_sparse")
    out = mx.sym.FullyConnected(mx.sym.Variable("data"), weight, num_hidden=3, name="fc")
    net = mx.sym.SoftmaxOutput(out, name="softmax")
    one, two = fresh_driver(), driver
    outputs = []
    for each, contexts in ((one, ("cpu(0)",)), (two, ("cpu(0)", "cpu(1)"))):
        each.create(net, contexts=contexts)
        each.bind()
        each.ask(calls.InitParams(module="net", spec=InitSpec(seed=3)))
        spec = OptimizerSpec(options={"learning_rate": 0.5, "momentum": 0.9})
        each.ask(calls.InitOptimizer(module="net", spec=spec))
        for batch in batches(toy_data):
            _, found = each.ask(calls.Forward(module="net", backward=True), **batch)
            each.ask(calls.Update(module="net"))
        outputs.append(next(iter(found.values())))
    np.testing.assert_allclose(*outputs, rtol=1e-4, atol=1e-6)
    assert outputs[0].max() > 0.5


def test_parameters_set_while_a_store_holds_them_are_kept(driver, make_network, toy_data):
    driver.create(make_network(), contexts=("cpu(0)", "cpu(1)"))
    driver.bind()
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=3)))
    spec = OptimizerSpec(options={"learning_rate": 0.0, "momentum": 0.9})
    driver.ask(calls.InitOptimizer(module="net", spec=spec))
    wanted = {name: value + 1 for name, value in driver.params().items()}
    driver.ask(calls.SetParams(module="net"), **wanted)
    driver.ask(calls.Forward(module="net", backward=True), **next(batches(toy_data)))
    driver.ask(calls.Update(module="net"))
    for name, value in driver.params().items():
        np.testing.assert_array_equal(value, wanted[name])


def test_states_are_kept_between_batches(driver):
    data, state = mx.sym.Variable("data"), mx.sym.Variable("state")
    net = mx.sym.Group([mx.sym.broadcast_add(data, state), mx.sym.BlockGrad(state)])
    record = ModuleRecord(
        name="net", symbols={SINGLE: net.tojson()}, state_names=("state",), label_names=()
    )
    driver.ask(calls.CreateModule(record=record))
    shapes = (InputDesc(name="data", shape=(2, 3)),)
    spec = BindSpec(data_shapes=shapes, for_training=False)
    refusal = driver.refusal(calls.Bind(module="net", spec=spec))
    assert "state" in refusal.message

    fixed = mx.sym.Variable("state", shape=(2, 3))
    net = mx.sym.elemwise_add(data, fixed, name="sum")
    record = ModuleRecord(
        name="two", symbols={SINGLE: net.tojson()}, state_names=("state",), label_names=()
    )
    driver.ask(calls.CreateModule(record=record))
    driver.ask(calls.Bind(module="two", spec=spec))
    driver.ask(calls.SetParams(module="two"))
    driver.host._get("two").has_unsaved = False
    driver.refusal(calls.SetStates(module="two"), state=np.zeros((1, 3), dtype=np.float32))
    assert not driver.describe("two")["has_unsaved"]
    driver.ask(calls.SetStates(module="two", value=2.0))
    assert driver.describe("two")["has_unsaved"]
    _, outputs = driver.ask(calls.Forward(module="two"), data=np.ones((2, 3), dtype=np.float32))
    np.testing.assert_array_equal(outputs["sum_output"], np.full((2, 3), 3.0))
    wanted = np.arange(6, dtype=np.float32).reshape(2, 3)
    driver.ask(calls.SetStates(module="two"), state=wanted)
    _, states = driver.ask(calls.GetStates(module="two"))
    np.testing.assert_array_equal(states["state"], wanted)
    assert driver.refusal(calls.SetStates(module="two")).field_name == "inputs"
    refusal = driver.refusal(calls.SetStates(module="two"), state=wanted[:1])
    assert refusal.message == "state: got shape (1, 3), expected shape (2, 3)"
    _, states = driver.ask(calls.GetStates(module="two"))
    np.testing.assert_array_equal(states["state"], wanted)
    assert driver.refusal(calls.SetStates(module="two"), stat=wanted).field_name == "stat"


def test_states_of_several_devices_are_concatenated(driver):
    net = mx.sym.elemwise_add(mx.sym.Variable("data"), mx.sym.Variable("state"), name="sum")
    record = ModuleRecord(
        name="net",
        symbols={SINGLE: net.tojson()},
        state_names=("state",),
        label_names=(),
        contexts=("cpu(0)", "cpu(1)"),
    )
    driver.ask(calls.CreateModule(record=record))
    shapes = (InputDesc(name="data", shape=(4, 3)),)
    driver.ask(calls.Bind(module="net", spec=BindSpec(data_shapes=shapes, for_training=False)))
    driver.ask(calls.SetParams(module="net"))
    wanted = np.arange(12, dtype=np.float32).reshape(4, 3)
    driver.ask(calls.SetStates(module="net"), state=wanted)
    _, states = driver.ask(calls.GetStates(module="net"))
    np.testing.assert_array_equal(states["state"], wanted)
    _, outputs = driver.ask(calls.Forward(module="net"), data=np.ones((4, 3), dtype=np.float32))
    np.testing.assert_array_equal(outputs["sum_output"], wanted + 1)
