"""MXNet's DataParallelExecutorGroup: executors on several devices, and the memory they share."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import core as mx
from core.module.base_module import (
    _as_list,
    _check_input_names,
    _check_names_match,
    _parse_data_desc,
)
from core.module.executor_group import DataParallelExecutorGroup
from core.module.group_spec import GroupSpec

CONTEXTS = [mx.cpu(0), mx.cpu(1)]
SHAPES = {"data_shapes": [("data", (8, 6))], "label_shapes": [("softmax_label", (8, 6))]}


def _language_model(layers: int) -> mx.sym.Symbol:
    stack = mx.rnn.SequentialRNNCell()
    for layer in range(layers):
        stack.add(mx.rnn.LSTMCell(num_hidden=5, prefix=f"lstm_l{layer}_"))
    embedded = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=20, output_dim=4, name="embed")
    outputs, _ = stack.unroll(6, inputs=embedded, merge_outputs=True)
    x = mx.sym.FullyConnected(mx.sym.Reshape(outputs, shape=(-1, 5)), num_hidden=20, name="pred")
    label = mx.sym.Reshape(mx.sym.Variable("softmax_label"), shape=(-1,))
    return mx.sym.SoftmaxOutput(x, label=label, name="softmax")


def _group(
    symbol: mx.sym.Symbol, names: list[str], shared: DataParallelExecutorGroup | None = None
) -> DataParallelExecutorGroup:
    return DataParallelExecutorGroup(
        symbol=symbol,
        contexts=CONTEXTS,
        workload=[1, 1],
        param_names=names,
        for_training=True,
        inputs_need_grad=False,
        shared_group=shared,
        **SHAPES,
    )


def _are_same(first: mx.nd.NDArray, second: mx.nd.NDArray) -> bool:
    return bool(np.shares_memory(first.dense(), second.dense()))


def test_groups_share_parameters_gradients_and_inputs() -> None:
    small, large = _language_model(1), _language_model(2)
    names = [one for one in small.list_arguments() if one not in ("data", "softmax_label")]
    first = _group(small, names)
    for arrays in first.shared_data_arrays:
        assert set(arrays) == {"data", "softmax_label"}
    second = _group(large, names, first)
    others = {name for name in large.list_arguments() if name not in names}
    for device in range(2):
        assert set(second.shared_data_arrays[device]) == others
        assert second.shared_data_arrays[device] is first.shared_data_arrays[device]
        mine, yours = second.execs[device], first.execs[device]
        for name in names:
            assert _are_same(mine.arg_dict[name], yours.arg_dict[name])
            assert _are_same(mine.grad_dict[name], yours.grad_dict[name])
        for name in ("data", "softmax_label"):
            assert _are_same(mine.arg_dict[name], yours.arg_dict[name])
    assert {second.grad_req[name] for name in names} == {"write"}
    assert {second.grad_req[name] for name in others} == {"null"}


def test_arrays_are_listed_with_their_batch_slices() -> None:
    symbol = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    group = DataParallelExecutorGroup(
        symbol, CONTEXTS, None, [("data", (6, 3))], None, ["fc_weight", "fc_bias"], True, True
    )
    assert [rows for rows, _ in group.data_arrays[0]] == [slice(0, 3), slice(3, 6)]
    assert group.label_arrays is None
    assert [one.shape for one in group.input_grad_arrays[0]] == [(3, 3), (3, 3)]
    assert group._total_exec_bytes > 0


def test_a_group_reshapes_and_runs_as_mxnets_does() -> None:
    symbol = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    symbol = mx.sym.Group([symbol, symbol * 2])
    group = DataParallelExecutorGroup(
        symbol, CONTEXTS, None, [("data", (6, 3))], None, ["fc_weight", "fc_bias"], True, True
    )
    group.set_params({"fc_weight": mx.nd.ones((2, 3)), "fc_bias": mx.nd.zeros(2)}, {})
    before = group.execs[0]
    group.reshape([("data", (6, 3))], None)
    assert group.execs[0] is before
    for size in (4, 10):
        group.reshape([("data", (size, 3))], None)
        assert group.batch_size == size
        group.forward(mx.io.DataBatch([mx.nd.ones((size, 3))]))
        names = [name for name, _ in group.get_output_shapes()]
        assert group.get_output_shapes() == [(name, (size, 2)) for name in names]
        (second,) = group.get_outputs(begin=1)
        assert second.asnumpy().tolist() == [[6, 6]] * size
        group.backward([mx.nd.ones((size, 2)), mx.nd.zeros((size, 2))])
        assert group.get_input_grads()[0].asnumpy().tolist() == [[2, 2, 2]] * size
    total = sum(one.asnumpy() for one in group.grad_arrays[0])
    assert total.tolist() == [[10] * 3] * 2
    with pytest.raises(AssertionError, match="merge_multi_context=False"):
        group.get_states()


class Fork(mx.mod.BaseModule):
    """What forked copies of MXNet's Module do with a group."""

    def __init__(self, symbol: mx.sym.Symbol) -> None:
        super().__init__()
        self._symbol = symbol
        self._exec_group: DataParallelExecutorGroup | None = None

    def bind(self, data_shapes: Any, label_shapes: Any = None, shared: Fork | None = None) -> None:
        _check_input_names(self._symbol, ["data"], "data", True)
        data, labels = _parse_data_desc(["data"], ["softmax_label"], data_shapes, label_shapes)
        names = [one for one in self._symbol.list_arguments() if one not in ("data", "label")]
        group = None if shared is None else shared._exec_group
        self._exec_group = DataParallelExecutorGroup(
            self._symbol, CONTEXTS, [1, 1], data, labels, names, True, False, group
        )
        self._total_exec_bytes = self._exec_group._total_exec_bytes
        self.binded = True


def test_forked_modules_create_their_own_groups() -> None:
    symbol = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    first, second = Fork(symbol), Fork(symbol)
    with pytest.warns(UserWarning, match=r"label_shapes don't match.*softmax_label"):
        first.bind([("data", (4, 3))])
    with pytest.warns(UserWarning, match="label_shapes"):
        second.bind([("data", (2, 3))], None, first)
    assert first._total_exec_bytes > 0
    weights = [one._exec_group.execs[1].arg_dict["fc_weight"] for one in (first, second)]
    assert _are_same(*weights)
    with pytest.raises(ValueError, match="data_shapes don't match"):
        first.bind([("other", (4, 3))])
    with pytest.raises(ValueError, match="'nothing'"):
        _check_input_names(symbol, ["nothing"], "data", True)
    with pytest.warns(UserWarning, match="'nothing'"):
        _check_input_names(symbol, ["nothing"], "label", False)
    _check_names_match(["a", "b"], [("b", (1,)), ("a", (2,))], "data", True)
    assert (_as_list(print), _as_list([print])) == ([print], [print])
    assert _parse_data_desc(["data"], [], [("data", (1,))], []) == ([("data", (1,))], [])


class Loaded(mx.mod.Module):
    """A module whose ``load`` is a script's own, modelled on MXNet's."""

    @staticmethod
    def load(prefix: str, epoch: int, *args: Any, **kwargs: Any) -> Loaded:
        symbol, arguments, auxiliary = mx.model.load_checkpoint(prefix, epoch)
        module = Loaded(symbol, **kwargs)
        module._arg_params = arguments
        module._aux_params = auxiliary
        module.params_initialized = True
        return module


def test_a_custom_load_may_set_the_parameters(tmp_path: Path) -> None:
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    net = mx.sym.BatchNorm(net, name="bn")
    first = mx.mod.Module(net, label_names=())
    assert first._arg_params is None
    first.bind([("data", (4, 3))])
    first.init_params(mx.init.Normal())
    first._params_dirty = True
    first.save_checkpoint(str(tmp_path / "net"), 1)
    second = Loaded.load(str(tmp_path / "net"), 1, label_names=())
    assert second.params_initialized
    assert second._arg_params.keys() == {"fc_weight", "fc_bias", "bn_gamma", "bn_beta"}
    assert second._aux_params.keys() == {"bn_moving_mean", "bn_moving_var"}
    second.bind([("data", (4, 3))], for_training=False)
    batch = mx.io.DataBatch([mx.nd.ones((4, 3))])
    outputs = []
    for module in (first, second):
        module.forward(batch, is_train=False)
        outputs.append(module.get_outputs()[0].asnumpy())
    np.testing.assert_array_equal(outputs[0], outputs[1])


def test_rebinding_a_bucket_does_not_grow_memory() -> None:
    def generate(key: int) -> tuple[mx.sym.Symbol, tuple[str], None]:
        x = mx.sym.sum(mx.sym.Variable("data"), axis=1, keepdims=True)
        return mx.sym.FullyConnected(x, num_hidden=4, name="fc"), ("data",), None

    module = mx.mod.BucketingModule(generate, 10)
    module.bind([("data", (4, 10))])
    module.init_params()
    module.switch_bucket(5, [("data", (4, 5))])
    default, before = module._buckets[10], module._buckets[10]._total_exec_bytes
    shared = module._buckets[5]._exec_group.execs[0].arg_dict["data"]
    assert _are_same(shared, default._exec_group.execs[0].arg_dict["data"])
    del module._buckets[5]
    module.switch_bucket(5, [("data", (4, 5))])
    assert default._total_exec_bytes == before


def test_a_module_exposes_its_group_under_mxnets_names() -> None:
    data = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    symbol = mx.sym.SoftmaxOutput(data, name="softmax")
    module = mx.mod.Module(symbol, context=[mx.cpu(0), mx.cpu(1)])
    module.bind([("data", (4, 3))], [("softmax_label", (4,))], inputs_need_grad=True)
    group = module._exec_group
    assert group.param_names == ["fc_weight", "fc_bias"]
    assert group.arg_names == ["data", "fc_weight", "fc_bias", "softmax_label"]
    assert (group.data_names, group.label_names) == (["data"], ["softmax_label"])
    assert (group.output_names, group.aux_names) == (["softmax_output"], [])
    assert (list(group.state_names), list(group.fixed_param_names)) == ([], [])
    assert (group.contexts, group.workload) == ([mx.cpu(0), mx.cpu(1)], [1, 1])
    assert (group.symbol, group.for_training, group.inputs_need_grad) == (symbol, True, True)
    assert group.grad_req["softmax_label"] == "null"
    assert [rows for rows, _ in group.data_arrays[0]] == [slice(0, 2), slice(2, 4)]
    assert group.label_arrays[0][1][1].shape == (2,)
    assert [one.shape for one in group.input_grad_arrays[0]] == [(2, 3), (2, 3)]


def test_inputs_and_their_gradients_are_on_their_groups_devices() -> None:
    with mx.AttrScope(ctx_group="one"):
        first = mx.sym.Variable("first") * 2
    with mx.AttrScope(ctx_group="two"):
        total = first + mx.sym.Variable("second")
    groups = {"one": mx.cpu(1), "two": mx.cpu(2)}
    names = ["first", "second"]
    module = mx.mod.Module(total, names, None, context=[mx.cpu(0)], group2ctxs=groups)
    module.bind([(name, (2, 3)) for name in names], inputs_need_grad=True)
    module.init_params()
    module.forward(mx.io.DataBatch([mx.nd.ones((2, 3)), mx.nd.ones((2, 3))]), is_train=True)
    module.backward([mx.nd.ones((2, 3))])
    gradients = module.get_input_grads()
    assert [one.context for one in gradients] == [mx.cpu(1), mx.cpu(2)]
    assert [one.asnumpy()[0, 0] for one in gradients] == [2, 1]


@pytest.mark.parametrize("groups", [{"one": mx.cpu(1), "two": mx.cpu(2)}, {"two": [mx.cpu(2)]}])
def test_parameters_and_outputs_are_on_their_groups_devices(groups: Any) -> None:
    with mx.AttrScope(ctx_group="one"):
        x = mx.sym.BatchNorm(mx.sym.Variable("data"), name="bn", fix_gamma=False)
    with mx.AttrScope(ctx_group="two"):
        x = mx.sym.FullyConnected(x, num_hidden=2, name="fc")
        symbol = mx.sym.SoftmaxOutput(x, name="softmax")
    module = mx.mod.Module(symbol, context=mx.cpu(0), group2ctxs=groups)
    module.bind([("data", (4, 3))], [("softmax_label", (4,))])
    module.init_params(mx.init.One())
    module.init_optimizer(optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
    before = module.get_params()[0]["fc_bias"].asnumpy()
    batch = mx.io.DataBatch([mx.nd.array(np.arange(12).reshape(4, 3))], [mx.nd.zeros(4)])
    for _ in range(2):
        module.forward_backward(batch)
        module.update()
    one, two = groups.get("one", mx.cpu(0)), mx.cpu(2)
    executor = module._exec_group.execs[0]
    for name, place in (("bn_gamma", one), ("bn_beta", one), ("fc_weight", two), ("fc_bias", two)):
        assert executor.arg_dict[name].context == executor.grad_dict[name].context == place
    assert executor.aux_dict["bn_moving_mean"].context == one
    assert module.get_outputs()[0].context == two
    assert (module.get_params()[0]["fc_bias"].asnumpy() != before).all()


class CountedName(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    comparisons: ClassVar[int] = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedName.comparisons += 1
        return str.__eq__(self, other)


def test_many_parameters_are_not_compared_with_one_another() -> None:
    names = [CountedName(f"w{number}") for number in range(200)]
    symbol = mx.sym.add_n(*map(mx.sym.Variable, names))
    spec = GroupSpec(
        *(symbol, [mx.cpu()], [1], names, [], []),
        *(True, False),
        grad_req="write",
        group2ctxs=[None],
    )
    CountedName.comparisons = 0
    requests = spec.gradient_requests([])
    assert CountedName.comparisons <= 2 * len(names)  # 19,900 where each is looked for in a list
    assert requests == dict.fromkeys(names, "write")
