"""Blocks: names, children, files, and hybridized results equal to imperative ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from core.errors import UsageError
from core.gluon import nn


def _network(**options: Any) -> nn.HybridSequential:
    net = nn.HybridSequential(prefix="net_", **options)
    with net.name_scope():
        net.add(nn.Dense(4, activation="relu"), nn.Flatten(), nn.Dense(2, use_bias=False))
    return net


def _data(seed: int = 0) -> mx.nd.NDArray:
    return mx.nd.array(np.random.RandomState(seed).normal(size=(3, 5)))


def test_names_are_those_of_mxnet() -> None:
    net = _network()
    assert list(net.collect_params()) == [
        "net_dense0_weight",
        "net_dense0_bias",
        "net_dense1_weight",
    ]
    assert list(net.collect_params(".*weight")) == ["net_dense0_weight", "net_dense1_weight"]
    assert net[0].prefix == "net_dense0_"
    assert net.name == "net"
    assert len(net) == 3
    assert len(net[1:]) == 2
    with mx.name.NameManager():
        assert [nn.Dense(1).prefix for _ in range(2)] == ["dense0_", "dense1_"]


def test_hybridized_blocks_give_the_same_results_and_gradients() -> None:
    net = _network()
    net.initialize(mx.init.Xavier())
    found = []
    for active in (False, True, False):
        net.hybridize(active)
        with mx.autograd.record():
            output = net(_data())
        output.backward()
        gradients = [one.grad().asnumpy() for one in net.collect_params().values()]
        found.append([output.asnumpy(), net(_data(1)).asnumpy(), *gradients])
    for some in found[1:]:
        for expected, got in zip(found[0], some, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_deferred_shapes_are_inferred_on_the_first_call() -> None:
    net = _network()
    net.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    assert net[0].weight.shape == (4, 0)
    net(_data().as_in_context(mx.cpu(1)))
    assert net[0].weight.shape == (4, 5)
    assert repr(net[0]) == "Dense(5 -> 4, relu)"


def test_parameters_are_saved_loaded_and_exported(tmp_path: Path) -> None:
    net, path = _network(), str(tmp_path / "x.params")
    net.initialize()
    expected = net(_data()).asnumpy()
    net.save_parameters(path)
    assert sorted(mx.nd.load(path)) == ["0.bias", "0.weight", "2.weight"]
    other = _network()
    other.load_parameters(path)
    np.testing.assert_array_equal(other(_data()).asnumpy(), expected)
    net.collect_params().save(path, strip_prefix="net_")
    other = _network()
    other.load_parameters(path)
    np.testing.assert_array_equal(other(_data()).asnumpy(), expected)
    with pytest.raises(UsageError, match="Please first call"):
        net.export(str(tmp_path / "e"))
    net.hybridize()
    net(_data())
    net.export(str(tmp_path / "e"), 2)
    module = mx.mod.Module.load(str(tmp_path / "e"), 2, label_names=None)
    module.bind([("data", (3, 5))], for_training=False)
    module.forward(mx.io.DataBatch([_data()]))
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), expected, rtol=1e-6)


def test_shared_parameters_train_together(tmp_path: Path) -> None:
    first = nn.Dense(5, in_units=5, use_bias=False)
    second = nn.Dense(5, in_units=5, use_bias=False, params=first.collect_params())
    net = nn.Sequential()
    net.add(first, second)
    net.initialize(mx.init.One())
    assert first.weight is second.weight
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    with mx.autograd.record():
        loss = net(mx.nd.ones((1, 5))).sum()
    loss.backward()
    trainer.step(1)
    # d/dw of sum(W W x): both uses contribute, 5 from the outer and 5 from the inner one.
    np.testing.assert_allclose(first.weight.data().asnumpy(), 1 - 0.1 * 10, atol=1e-6)
    path = str(tmp_path / "x.params")
    net.save_parameters(path, deduplicate=True)
    assert list(mx.nd.load(path)) == ["0.weight"]
    net.load_parameters(path)


def test_a_lone_block_loads_what_it_saved_under_its_attributes(tmp_path: Path) -> None:
    class Scaled(mx.gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.my_scale = self.params.get("scale", shape=(2,))

    one, other = Scaled(), Scaled()
    one.initialize()
    one.save_parameters(str(tmp_path / "scaled.params"))
    other.load_parameters(str(tmp_path / "scaled.params"))
    saved, loaded = one.my_scale.data().asnumpy(), other.my_scale.data().asnumpy()
    np.testing.assert_array_equal(loaded, saved)


def test_a_sparse_embedding_followed_by_a_dense_layer() -> None:
    class Net(mx.gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.table = self.params.get(
                    "table", stype="row_sparse", shape=(4, 3), grad_stype="row_sparse"
                )
                self.dense = nn.Dense(2)

        def forward(self, x: mx.nd.NDArray) -> mx.nd.NDArray:
            weight = self.table.row_sparse_data(x)
            rows = mx.nd.Embedding(x, weight, input_dim=4, output_dim=3, sparse_grad=True)
            return self.dense(rows)

    for contexts in ([mx.cpu(1), mx.cpu(2)], [mx.cpu(1)]):
        net = Net()
        net.initialize(mx.init.One(), ctx=contexts)
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1})
        parts = mx.gluon.utils.split_and_load(mx.nd.array([[0, 2], [1, 2]]), contexts)
        with mx.autograd.record():
            outputs = [net(part) for part in parts]
        for output in outputs:
            output.backward()
        trainer.step(1)
        assert not trainer._params_to_init
        table = net.table.row_sparse_data(mx.nd.arange(0, 4, ctx=mx.cpu(1))).asnumpy()
        assert table[:, 0].tolist() == [-1, -1, -3, 1]


def test_apply_cast_and_dropout_modes() -> None:
    net = _network()
    seen: list[str] = []
    assert net.apply(lambda block: seen.append(block.name)) is net
    assert seen[-1] == "net"
    net.initialize(mx.init.One())
    net(_data())
    net.cast("float16")
    assert net(_data().astype("float16")).dtype == np.float16
    dropped = nn.Dropout(0.5)
    assert (dropped(mx.nd.ones((50,))).asnumpy() == 1).all()
    with mx.autograd.record():
        assert 0 in dropped(mx.nd.ones((50,))).asnumpy()


def test_invalid_children_and_calls_are_refused() -> None:
    with pytest.raises(ValueError, match="must also be HybridBlock"):
        nn.HybridSequential().add(nn.Sequential())
    net = _network()
    with pytest.raises(UsageError, match="Overriding Parameter attribute weight"):
        net[0].weight = mx.gluon.Parameter("other")
    with pytest.raises(UsageError, match="called with NDArrays or Symbols, got int"):
        net(3)
    with pytest.raises(NotImplementedError, match="Block must define forward"):
        mx.gluon.Block()(1)


def test_hooks_are_called_before_and_after_until_detached() -> None:
    net, calls = nn.Dense(2, prefix="d_"), []
    net.initialize()
    before = net.register_forward_pre_hook(lambda block, x: calls.append((block.name, len(x))))
    with net.register_forward_hook(lambda block, x, y: calls.append((len(x), y.shape))):
        net(_data())
    net(_data())
    before.detach()
    before.detach()
    net(_data())
    assert calls == [("d", 1), (1, (3, 2)), ("d", 1)]
    with pytest.raises(UsageError, match="attached twice"):
        before.attach({}, print)


def test_a_summary_counts_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    shared = nn.Dense(4, in_units=4, prefix="one_")
    net = nn.Sequential()
    net.add(shared, nn.BatchNorm(), nn.Dense(4, prefix="one_", params=shared.params))
    net.initialize()
    net.summary(mx.nd.ones((2, 4)))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["Input", "(2,", "4)", "0"] in lines
    assert ["Dense-1", "(2,", "4)", "20"] in lines
    assert ["BatchNorm-2", "(2,", "4)", "16"] in lines
    counts = [line[-1] for line in lines if "params:" in line or "graph:" in line]
    assert counts == ["56", "48", "8", "20"]
    assert ["Unique", "parameters", "in", "model:", "36"] in lines
    compiled = _network()
    compiled.initialize()
    compiled.hybridize()
    with pytest.raises(AssertionError, match="must not be hybridized"):
        compiled.summary(_data())


def test_children_and_parameters_cannot_change_type() -> None:
    net = nn.Sequential()
    net.other = nn.Dense(1)
    net.other = nn.Dense(2)
    assert list(net._children.values()) == [net.other]
    with pytest.raises(TypeError, match="Changing attribute type for other"):
        net.other = (2,)
    with pytest.raises(TypeError, match="Changing attribute type for weight"):
        net.other.weight = None


class _Holder(mx.gluon.Block):
    def __init__(self, layers: Any) -> None:
        super().__init__()
        self.layers = layers


@pytest.mark.parametrize("layers", [[nn.Dense(1)], {"a": (nn.Dense(1), 2)}])
def test_blocks_hidden_in_containers_cause_a_warning(layers: Any) -> None:
    with pytest.warns(UserWarning, match=r"_Holder\.layers.*unregistered container"):
        _Holder(layers).collect_params()


def test_containers_of_registered_blocks_cause_no_warning() -> None:
    layers = [nn.Dense(1)]
    holder = _Holder(layers)
    holder.register_child(layers[0])
    assert len(holder.collect_params()) == 2
    assert len(_Holder({"a": "4", "b": [1]}).collect_params()) == 0


def test_a_hybridized_block_notices_a_changed_child() -> None:
    net = nn.HybridSequential()
    net.first = nn.Dense(3, flatten=False)
    net.second = nn.Dense(4, flatten=False)
    net.hybridize()
    net.initialize()
    assert net(mx.nd.ones((2, 3, 5))).shape == (2, 3, 4)
    net.second = nn.Dense(4)
    net.second.initialize()
    assert net(mx.nd.ones((2, 3, 5))).shape == (2, 4)
    net.add(nn.Flatten())
    assert net(mx.nd.ones((2, 3, 5))).shape == (2, 4)


def test_a_sequential_of_hybrid_blocks_suggests_hybrid_sequential() -> None:
    net = nn.Sequential(prefix="chain_")
    net.add(nn.Dense(2))
    with pytest.warns(UserWarning, match="'chain_' are HybridBlocks"):
        net.hybridize()


class _Optional(mx.gluon.HybridBlock):
    def hybrid_forward(self, F: Any, a: Any, b: Any = None) -> Any:  # type: ignore[override]
        return b if a is None else a if b is None else a - b


@pytest.mark.parametrize("active", [False, True])
def test_inputs_may_be_omitted(active: bool) -> None:
    block = _Optional()
    block.hybridize(active)
    one, two = mx.nd.array([1]), mx.nd.array([2])
    inputs = [(one, two), (one, None), (None, two), (one,), (two, one)]
    assert [block(*some).asscalar() for some in inputs] == [-1, 1, 2, 1, 1]
    with pytest.raises(UsageError, match="got NoneType"):
        block(None)


def test_loaded_symbol_blocks_can_be_hybridized_as_children() -> None:
    inner = _network()
    inner.initialize()
    data = mx.sym.Variable("data")
    net = nn.HybridSequential()
    net.add(mx.gluon.SymbolBlock(inner(data), data, inner.collect_params()), nn.Flatten())
    expected = inner(_data()).asnumpy()
    for active in (False, True):
        net.hybridize(active)
        np.testing.assert_allclose(net(_data()).asnumpy(), expected, rtol=1e-5, atol=1e-8)


def test_recording_in_predict_mode_does_not_drop_out() -> None:
    net = nn.HybridSequential()
    net.add(nn.Dropout(0.9))
    net.hybridize()
    x = mx.nd.ones((4, 4))
    x.attach_grad()
    with mx.autograd.record(train_mode=False):
        y = net(x)
    y.backward()
    np.testing.assert_array_equal(y.asnumpy(), np.ones((4, 4)))
    np.testing.assert_array_equal(x.grad.asnumpy(), np.ones((4, 4)))


def test_deprecated_save_params_drops_the_prefix(tmp_path: Path) -> None:
    net, path = _network(), str(tmp_path / "x.params")
    net.initialize()
    net(_data())
    with pytest.warns(UserWarning, match="save_params is deprecated"):
        net.save_params(path)
    assert sorted(mx.nd.load(path)) == ["dense0_bias", "dense0_weight", "dense1_weight"]
    other = _network()
    with pytest.warns(UserWarning, match="load_params is deprecated"):
        other.load_params(path)
    np.testing.assert_array_equal(other(_data()).asnumpy(), net(_data()).asnumpy())


class _Doubling(mx.gluon.HybridBlock):
    """A block whose ``forward`` does something before the part that can be hybridized."""

    def forward(self, *args: Any) -> Any:
        return super().forward(*(2 * one for one in args))

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        return x + 1


@pytest.mark.parametrize("compiled", [False, True])
def test_an_overridden_forward_runs_once_per_call(compiled: bool) -> None:
    block = _Doubling()
    block.hybridize(compiled)
    assert block(mx.nd.ones((1,))).asscalar() == 3


@pytest.mark.parametrize("compiled", [False, True])
def test_mixed_arrays_and_symbols_are_refused(compiled: bool) -> None:
    block = nn.HybridLambda(lambda F, x, y: x + y)
    block.hybridize(compiled)
    array, symbol = mx.nd.ones((2,)), mx.sym.Variable("x")
    for pair in ((array, symbol), (symbol, array)):
        with pytest.raises(UsageError, match="got both"):
            block(*pair)


def test_hybridized_blocks_run_on_one_device() -> None:
    block = nn.HybridLambda(lambda F, x, y: x + y)
    block.hybridize()
    elsewhere = mx.nd.ones((2,), ctx=mx.cpu(2))
    with pytest.raises(UsageError, match=r"arrays on one device, got cpu\(1\), cpu\(2\)"):
        block(mx.nd.ones((2,), ctx=mx.cpu(1)), elsewhere)
    pinned = mx.nd.ones((2,), ctx=mx.cpu_pinned(2))
    assert block(pinned, elsewhere).asnumpy().tolist() == [2, 2]
