"""Module: stages, shapes, several devices, files."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import core as mx
from core.errors import ShapeError, StageError
from core.module import Stage

SGD = (("learning_rate", 0.5), ("momentum", 0.9))


def network() -> mx.sym.Symbol:
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, name="fc1")
    x = mx.sym.Activation(x, act_type="tanh", name="act")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(x, num_hidden=3, name="fc2"), name="softmax")


def batch(size: int = 4, seed: int = 0) -> mx.io.DataBatch:
    random = np.random.RandomState(seed)
    data = mx.nd.array(random.rand(size, 5))
    return mx.io.DataBatch([data], [mx.nd.array(random.randint(0, 3, size))])


def ready(**options: object) -> mx.mod.Module:
    mx.random.seed(3)
    module = mx.mod.Module(network(), **options)
    module.bind([("data", (4, 5))], [("softmax_label", (4,))])
    module.init_params(mx.init.Xavier())
    module.init_optimizer(optimizer="sgd", optimizer_params=SGD)
    return module


def train(module: mx.mod.Module, steps: int = 3) -> dict[str, np.ndarray]:
    for seed in range(steps):
        module.forward_backward(batch(seed=seed))
        module.update()
    return {name: values.asnumpy() for name, values in module.get_params()[0].items()}


def assert_same(a: dict[str, np.ndarray], b: dict[str, np.ndarray], rtol: float = 1e-5) -> None:
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_allclose(a[name], b[name], rtol=rtol, atol=1e-6, err_msg=name)


def test_a_training_pass_updates_the_auxiliary_states() -> None:
    net = mx.sym.BatchNorm(mx.sym.Variable("data"), name="bn", fix_gamma=False)
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=3), name="softmax")
    module = mx.mod.Module(net)
    module.bind([("data", (4, 5))], [("softmax_label", (4,))])
    module.init_params(mx.init.Xavier())
    first = batch()
    module.forward_backward(first)
    _, states = module.get_params()  # although no update has followed
    expected = 0.1 * first.data[0].asnumpy().mean(axis=0)
    np.testing.assert_allclose(states["bn_moving_mean"].asnumpy(), expected, rtol=1e-5)


# -- stages ------------------------------------------------------------------------------------


def test_stage_follows_from_what_has_been_called() -> None:
    module = mx.mod.Module(network())
    assert module.stage is Stage.CREATED
    module.bind([("data", (4, 5))], [("softmax_label", (4,))])
    assert module.stage is Stage.BOUND
    module.init_params()
    assert module.stage is Stage.INITIALIZED
    module.init_optimizer()
    assert module.stage is Stage.READY
    assert (module.binded, module.params_initialized, module.optimizer_initialized) == (True,) * 3


@pytest.mark.parametrize(
    ("stage", "call", "first"),
    [
        (0, lambda m: m.init_params(), "bind("),
        (0, lambda m: m.forward(batch()), "bind("),
        (0, lambda m: m.data_shapes, "bind("),
        (1, lambda m: m.forward(batch()), "init_params()"),
        (1, lambda m: m.get_params(), "init_params()"),
        (1, lambda m: m.init_optimizer(), "init_params()"),
        (2, lambda m: m.update(), "init_optimizer()"),
        (2, lambda m: m.save_optimizer_states("x"), "init_optimizer()"),
    ],
)
def test_a_call_at_the_wrong_stage_names_the_missing_call(
    stage: int, call: object, first: str
) -> None:
    module = mx.mod.Module(network())
    steps = [
        lambda: module.bind([("data", (4, 5))], [("softmax_label", (4,))]),
        lambda: module.init_params(),
    ]
    for step in steps[:stage]:
        step()
    with pytest.raises(StageError) as error:
        call(module)  # type: ignore[operator]
    assert f"call {first}" in str(error.value)
    assert Stage(stage).name in str(error.value)


def test_backward_needs_a_training_pass_and_update_needs_gradients() -> None:
    module = ready()
    module.update()  # with the initial gradients of zero
    module.forward(batch(), is_train=False)
    with pytest.raises(StageError, match="is_train=True"):
        module.backward()
    module.forward(batch(), is_train=True)
    with pytest.raises(StageError, match="needs gradients"):
        module.update()
    module.backward()
    module.update()


def _weight_gradient(module: mx.mod.Module) -> np.ndarray:
    return module._exec_group.execs[0].grad_dict["fc1_weight"].asnumpy()


def test_backward_may_run_twice_after_one_forward() -> None:
    module = ready()
    module.forward_backward(batch())
    once = _weight_gradient(module)
    module._exec_group.execs[0].grad_dict["fc1_weight"][:] = 0
    module.backward()
    np.testing.assert_array_equal(_weight_gradient(module), once)
    module.update()


def test_backward_after_inference_differentiates_the_inference_pass() -> None:
    expected = []
    for size in (4, 2):
        module = ready()
        module.forward_backward(batch(size, seed=1))
        expected.append(_weight_gradient(module))
    module = ready()
    module.forward(batch(seed=0), is_train=True)
    module.forward(batch(seed=1), is_train=False)
    module.backward()
    np.testing.assert_allclose(_weight_gradient(module), expected[0], rtol=1e-6)
    module.forward(batch(2, seed=1), is_train=False)  # of another shape, bound in between
    module.backward()
    np.testing.assert_allclose(_weight_gradient(module), expected[1], rtol=1e-6)


def test_inference_between_backward_and_update_keeps_the_gradients() -> None:
    plain, other = ready(), ready()
    train(plain, 1)
    other.forward_backward(batch(seed=0))
    other.forward(batch(seed=5), is_train=False)
    assert not other.has_gradients  # of the last pass
    other.update()
    assert_same(*({k: v.asnumpy() for k, v in m.get_params()[0].items()} for m in (plain, other)))


def test_backward_of_an_inference_module_is_refused() -> None:
    module = mx.mod.Module(network())
    module.bind([("data", (4, 5))], for_training=False)
    module.init_params()
    module.forward(batch())
    with pytest.raises(StageError, match="for_training=True"):
        module.backward()


def test_second_bind_is_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    module = ready()
    with caplog.at_level(logging.WARNING):
        module.bind([("data", (2, 5))], [("softmax_label", (2,))])
    assert "Already bound" in caplog.text
    assert module.data_shapes[0].shape == (4, 5)


# -- names -------------------------------------------------------------------------------------


def test_an_unknown_data_name_suggests_the_inputs() -> None:
    with pytest.raises(ValueError, match=r"'dta' is not found .* Did you mean one of: data"):
        mx.mod.Module(network(), data_names=["dta"])


def test_an_unknown_label_name_only_warns() -> None:
    with pytest.warns(UserWarning, match="label_names"):
        mx.mod.Module(network(), label_names=["other_label"])


def test_shapes_for_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="don't match names"):
        mx.mod.Module(network()).bind([("dta", (4, 5))])


def test_contradicting_batch_sizes_are_named() -> None:
    with pytest.raises(ShapeError, match=r"'data': 4, 'softmax_label': 3"):
        mx.mod.Module(network()).bind([("data", (4, 5))], [("softmax_label", (3,))])


# -- parameters --------------------------------------------------------------------------------


def test_a_missing_parameter_changes_nothing() -> None:
    module = ready()
    before, _ = module.get_params()
    before = {name: values.asnumpy() for name, values in before.items()}
    with pytest.raises(RuntimeError, match="fc1_bias is not presented"):
        module.set_params({"fc1_weight": mx.nd.zeros((6, 5))}, {})
    after, _ = module.get_params()
    assert_same(before, {name: values.asnumpy() for name, values in after.items()})


def test_extra_parameters_are_refused_where_mxnet_refuses_them() -> None:
    module = ready()
    extra = {**module.get_params()[0], "fc1_wieght": mx.nd.zeros((1,))}
    with pytest.raises(ValueError, match=r"'fc1_wieght' is not among .*'fc1_weight'"):
        module.set_params(extra, {}, allow_missing=True)
    module.set_params(extra, {}, allow_missing=True, allow_extra=True)
    # Fine-tuning starts from a checkpoint with more parameters than the new network uses.
    module.init_params(arg_params=extra, aux_params={}, force_init=True)
    module.set_params(extra, {})


def test_parameters_of_the_wrong_shape_are_refused() -> None:
    module = ready()
    arguments, _ = module.get_params()
    with pytest.raises(ValueError, match=r"'fc1_bias' has shape \(7,\), expected \(6,\)"):
        module.set_params({**arguments, "fc1_bias": mx.nd.zeros((7,))}, {})


def test_init_params_needs_values_or_an_initializer() -> None:
    module = ready()
    with pytest.raises(TypeError, match=r"'fc1_bias' gets no value.*initializer is None"):
        module.init_params(initializer=None, force_init=True)


def test_parameters_that_are_not_given_keep_their_values() -> None:
    module = ready()
    before = train(module)
    given = {"fc1_weight": mx.nd.zeros((6, 5))}
    module.init_params(None, given, {}, allow_missing=True, force_init=True)
    after = {name: values.asnumpy() for name, values in module.get_params()[0].items()}
    assert_same({**before, "fc1_weight": np.zeros((6, 5), np.float32)}, after)


@pytest.mark.parametrize("then", ["read", "trained", "set in part", "bound anew", "saved"])
def test_released_parameters_are_those_of_the_device(tmp_path: Path, then: str) -> None:
    modules = [ready(), ready()]
    modules[1].release_params()
    assert not modules[1]._arg_params
    for module in modules:
        if then == "trained":
            train(module)
        elif then == "set in part":
            module.set_params({"fc1_weight": mx.nd.ones((6, 5))}, {}, allow_missing=True)
        elif then == "bound anew":
            module.bind([("data", (2, 5))], [("softmax_label", (2,))], force_rebind=True)
        elif then == "saved":
            module.save_params(str(tmp_path / "net.params"))
    expected, actual = (
        {name: values.asnumpy() for name, values in module.get_params()[0].items()}
        for module in modules
    )
    assert any(values.any() for values in expected.values())
    assert_same(expected, actual, rtol=0)


def test_parameters_on_several_devices_are_not_released() -> None:
    module = ready(context=[mx.cpu(0), mx.cpu(1)])
    before = module.get_params()[0]["fc1_weight"]
    module.release_params()
    assert module.get_params()[0]["fc1_weight"] is before


def test_fixed_parameters_do_not_change() -> None:
    module = ready(fixed_param_names=["fc1_weight"])
    before = module.get_params()[0]["fc1_weight"].asnumpy().copy()
    after = train(module)
    np.testing.assert_array_equal(after["fc1_weight"], before)
    assert not np.array_equal(after["fc2_weight"], before[:3])
    assert module._exec_group.grad_arrays[0] == [None]


def test_rebinding_keeps_parameters() -> None:
    module = ready()
    before = train(module)
    module.bind([("data", (2, 5))], [("softmax_label", (2,))], force_rebind=True)
    after, _ = module.get_params()
    assert_same(before, {name: values.asnumpy() for name, values in after.items()})
    module.forward(batch(2))
    assert module.get_outputs()[0].shape == (2, 3)


# -- shapes ------------------------------------------------------------------------------------


def test_a_new_batch_size_is_bound_automatically() -> None:
    module = ready()
    whole = batch(4)
    module.forward(whole, is_train=False)
    expected = module.get_outputs()[0].asnumpy()
    half = mx.io.DataBatch([whole.data[0][:2]], [whole.label[0][:2]])
    module.forward(half, is_train=False)
    assert module.data_shapes[0].shape == (2, 5)
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), expected[:2], rtol=1e-5)
    module.forward(whole, is_train=False)
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), expected, rtol=1e-5)


def test_reshaping_back_and_forth_binds_only_once() -> None:
    module = ready()
    first = module._exec_group
    for size in (2, 4, 2, 4):
        module.reshape([("data", (size, 5))], [("softmax_label", (size,))])
    assert module._exec_group is first


def test_training_continues_across_shapes() -> None:
    module = ready()
    module.forward_backward(batch(4))
    module.update()
    module.forward_backward(batch(2))
    module.update()
    module.forward(batch(4), is_train=False)
    assert module.get_outputs()[0].shape == (4, 3)


def test_a_batch_without_labels_can_be_predicted_but_not_trained() -> None:
    module = ready()
    for size in (4, 3):
        only_data = SimpleNamespace(data=batch(size).data)
        module.forward(only_data, is_train=False)
        assert module.get_outputs()[0].shape == (size, 3)
        with pytest.raises(ShapeError, match=r"no labels, but training needs \['softmax_label'\]"):
            module.forward(only_data, is_train=True)
        module.forward(only_data, is_train=False)
        module.forward_backward(batch(size))
        expected = ready()
        expected.forward_backward(batch(size))
        got, wanted = (one._exec_group.execs[0].grad_dict for one in (module, expected))
        for name in ("fc1_weight", "fc2_weight"):
            np.testing.assert_array_equal(got[name].asnumpy(), wanted[name].asnumpy())


def test_wrong_number_of_arrays_is_refused() -> None:
    module = ready()
    data = mx.nd.zeros((4, 5))
    with pytest.raises(ShapeError, match="2 arrays for the 1 inputs"):
        module.forward(mx.io.DataBatch([data, data], [], provide_data=[("data", (4, 5))]))


# -- gradients ---------------------------------------------------------------------------------


def test_gradients_of_inputs_must_be_requested() -> None:
    module = mx.mod.Module(network())
    module.bind([("data", (4, 5))], [("softmax_label", (4,))], inputs_need_grad=True)
    module.init_params(mx.init.Xavier())
    module.forward_backward(batch())
    (gradient,) = module.get_input_grads()
    assert gradient.shape == (4, 5)
    assert np.abs(gradient.asnumpy()).max() > 0
    with pytest.raises(StageError, match="inputs_need_grad=True"):
        ready().get_input_grads()


def test_gradients_accumulate_with_grad_req_add() -> None:
    def gradients(grad_req: str, passes: int) -> dict[str, np.ndarray]:
        mx.random.seed(3)
        module = mx.mod.Module(network())
        module.bind([("data", (4, 5))], [("softmax_label", (4,))], grad_req=grad_req)
        module.init_params(mx.init.Xavier())
        for _ in range(passes):
            module.forward_backward(batch())
        (exe,) = module._exec_group.execs
        return {name: exe.grad_dict[name].asnumpy() for name in ("fc1_weight", "fc2_bias")}

    once, thrice = gradients("write", 3), gradients("add", 3)
    for name in once:
        np.testing.assert_allclose(thrice[name], 3 * once[name], rtol=1e-5)


# -- several devices ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kvstore", "on_store"),
    [("local", "1"), ("local", "0"), ("device", "1"), ("device", "0"), (None, "1")],
)
def test_two_devices_train_to_the_same_parameters_as_one(
    kvstore: str | None, on_store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MXNET_UPDATE_ON_KVSTORE", on_store)

    def trained(contexts: list[mx.Context], store: str | None) -> dict[str, np.ndarray]:
        mx.random.seed(3)
        module = mx.mod.Module(network(), context=contexts)
        module.bind([("data", (4, 5))], [("softmax_label", (4,))])
        module.init_params(mx.init.Xavier())
        module.init_optimizer(kvstore=store, optimizer="sgd", optimizer_params=SGD)
        return train(module)

    one = trained([mx.cpu()], "local")
    two = trained([mx.cpu(0), mx.cpu(1)], kvstore)
    if kvstore is None:
        # Without a store each device updates from its own half, so that they diverge, as in MXNet.
        assert not np.allclose(one["fc1_weight"], two["fc1_weight"], rtol=1e-6)
    else:
        assert_same(one, two)


def test_work_load_list_divides_the_batch() -> None:
    module = mx.mod.Module(network(), context=[mx.cpu(0), mx.cpu(1)], work_load_list=[3, 1])
    module.bind([("data", (4, 5))], [("softmax_label", (4,))])
    module.init_params()
    module.forward(batch())
    shapes = [one.shape for one in module.get_outputs(merge_multi_context=False)[0]]
    assert shapes == [(3, 3), (1, 3)]
    assert module.get_outputs()[0].shape == (4, 3)
    assert module.output_shapes == [("softmax_output", (4, 3))]


def test_more_devices_than_rows_are_refused() -> None:
    module = mx.mod.Module(network(), context=[mx.cpu(i) for i in range(3)])
    with pytest.raises(ValueError, match="batch size 2 is too small for 3 devices"):
        module.bind([("data", (2, 5))], [("softmax_label", (2,))])


def test_a_list_of_batches_feeds_one_to_each_device() -> None:
    module = mx.mod.Module(network(), context=[mx.cpu(0), mx.cpu(1)])
    module.bind([("data", (4, 5))], [("softmax_label", (4,))])
    module.init_params(mx.init.Xavier())
    whole = batch(4)
    module.forward(whole, is_train=False)
    expected = module.get_outputs()[0].asnumpy()
    halves = [
        mx.io.DataBatch([whole.data[0][i : i + 2]], [whole.label[0][i : i + 2]]) for i in (0, 2)
    ]
    module.forward(halves, is_train=False)
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), expected, rtol=1e-5)


# -- files -------------------------------------------------------------------------------------


def test_training_resumes_identically_from_a_checkpoint(tmp_path: Path) -> None:
    prefix = str(tmp_path / "net")
    module = ready()
    train(module, 3)
    module.save_checkpoint(prefix, 3, save_optimizer_states=True)
    expected = train(module, 2)
    resumed = mx.mod.Module.load(prefix, 3, load_optimizer_states=True)
    resumed.bind([("data", (4, 5))], [("softmax_label", (4,))])
    resumed.init_optimizer(optimizer="sgd", optimizer_params=SGD)
    got = train(resumed, 2)
    for name in expected:
        np.testing.assert_array_equal(got[name], expected[name])


def test_parameters_loaded_before_bind_are_used(tmp_path: Path) -> None:
    module = ready()
    module.save_checkpoint(str(tmp_path / "net"), 1)
    loaded = mx.mod.Module.load(str(tmp_path / "net"), 1)
    before, _ = loaded.get_params()
    np.testing.assert_array_equal(
        before["fc1_weight"].asnumpy(), module.get_params()[0]["fc1_weight"].asnumpy()
    )


# -- everything else ---------------------------------------------------------------------------


def test_predict_removes_the_padding_of_the_last_batch() -> None:
    module = ready()
    data = np.random.RandomState(1).rand(10, 5).astype(np.float32)
    iterator = mx.io.NDArrayIter(data, batch_size=4)
    assert module.predict(iterator).shape == (10, 3)
    assert [len(one) for (one,) in module.predict(iterator, merge_batches=False)] == [4, 4, 2]
    assert isinstance(module.predict(iterator, always_output_list=True), list)
    one_by_one = [outputs[0].shape for outputs, _, _ in module.iter_predict(iterator)]
    assert one_by_one == [(4, 3), (4, 3), (2, 3)]
    np.testing.assert_allclose(
        module.predict(data).asnumpy(), module.predict(iterator).asnumpy(), rtol=1e-5
    )


def test_states_are_neither_data_nor_parameters() -> None:
    state = mx.sym.Variable("state", shape=(4, 3))
    symbol = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc") + state
    module = mx.mod.Module(symbol, label_names=None, state_names=["state"])
    module.bind([("data", (4, 5))])
    module.init_params(mx.init.Zero())
    assert "state" not in module.get_params()[0]
    module.set_states(value=2)
    module.forward(mx.io.DataBatch([mx.nd.zeros((4, 5))]), is_train=False)
    np.testing.assert_array_equal(module.get_outputs()[0].asnumpy(), 2)
    module.set_states(states=[[mx.nd.ones((4, 3))]])
    assert module.get_states(merge_multi_context=False)[0][0].asnumpy().sum() == 12
    with pytest.raises(ValueError, match="exactly one of states and value"):
        module.set_states()


def test_a_monitor_sees_intermediate_arrays() -> None:
    module = ready()
    monitor = mx.mon.Monitor(1, pattern=".*output", sort=True)
    module.install_monitor(monitor)
    monitor.tic()
    module.forward(batch(), is_train=True)
    names = [name for _, name, _ in monitor.toc()]
    assert {"act_output", "fc1_output", "fc2_output", "softmax_output"} <= set(names)
    assert names == sorted(names)


def test_a_monitor_callback_survives_reshaping() -> None:
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, flatten=False, name="fc")
    module = mx.mod.Module(net, label_names=None)
    module.bind([("data", (1, 3, 4))], for_training=False)
    module.init_params()
    shapes = []
    module._exec_group.execs[0].set_monitor_callback(lambda name, seen: shapes.append(seen.shape))
    module.forward(mx.io.DataBatch([mx.nd.ones((1, 5, 4))]), is_train=False)
    assert shapes == [(1, 5, 2)]


def test_a_monitor_prints_as_mxnets_does(caplog: pytest.LogCaptureFixture) -> None:
    module = ready()
    monitor = mx.mon.Monitor(1, stat_func=lambda x: x.sum(), pattern="fc1_bias")
    module.install_monitor(monitor)
    monitor.tic()
    module.forward(batch(), is_train=False)
    with caplog.at_level(logging.INFO):
        monitor.toc_print()
    # MXNet's monitor.py prints 'Batch: {:7d} {:30s} {:s}', each value followed by a tab.
    assert caplog.messages == [f"Batch: {1:7d} {'fc1_bias':30s} 0.0\t"]


def test_fit_runs_callbacks_and_scores() -> None:
    data = np.random.RandomState(0).rand(40, 5).astype(np.float32)
    labels = data.argmax(axis=1) % 3
    train_iter = mx.io.NDArrayIter(data, labels, batch_size=8)
    seen: dict[str, list[object]] = {"batch": [], "epoch": [], "eval": []}
    module = mx.mod.Module(network())
    module.fit(
        train_iter,
        mx.io.NDArrayIter(data, labels, batch_size=8),
        num_epoch=3,
        initializer=mx.init.Xavier(),
        optimizer_params={"learning_rate": 1.0},
        batch_end_callback=lambda p: seen["batch"].append((p.epoch, p.nbatch)),
        epoch_end_callback=lambda e, s, a, x: seen["epoch"].append((e, sorted(a))),
        eval_end_callback=lambda p: seen["eval"].append(p.epoch),
    )
    assert seen["batch"] == [(e, b) for e in range(3) for b in range(5)]
    assert [e for e, _ in seen["epoch"]] == [0, 1, 2]  # type: ignore[misc]
    assert seen["eval"] == [0, 1, 2]
    ((name, value),) = module.score(mx.io.NDArrayIter(data, labels, batch_size=8), "acc")
    assert name == "accuracy"
    assert 0.0 <= value <= 1.0


def test_fit_needs_num_epoch() -> None:
    with pytest.raises(ValueError, match="num_epoch is None"):
        mx.mod.Module(network()).fit(mx.io.NDArrayIter(np.zeros((4, 5))))


def test_borrowed_optimizer_is_the_same_object() -> None:
    module = ready()
    other = mx.mod.Module(network())
    other.bind([("data", (2, 5))], [("softmax_label", (2,))], shared_module=module)
    assert other._optimizer is module._optimizer
    other.forward_backward(batch(2))
    other.update()
    np.testing.assert_array_equal(
        other.get_params()[0]["fc1_weight"].asnumpy(),
        module.get_params()[0]["fc1_weight"].asnumpy(),
    )
