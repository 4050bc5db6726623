"""Blocks: names, children, files, and compiled as they run array by array."""

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


def test_compiled_blocks_compute_and_differentiate_the_same() -> None:
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


def test_shapes_follow_from_the_first_call() -> None:
    net = _network()
    net.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    assert net[0].weight.shape == (4, 0)
    net(_data().as_in_context(mx.cpu(1)))
    assert net[0].weight.shape == (4, 5)
    assert repr(net[0]) == "Dense(5 -> 4, relu)"


def test_files(tmp_path: Path) -> None:
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
    # d/dw of sum(W W x): both uses count, 5 from the outer and 5 from the inner one.
    np.testing.assert_allclose(first.weight.data().asnumpy(), 1 - 0.1 * 10, atol=1e-6)
    path = str(tmp_path / "x.params")
    net.save_parameters(path, deduplicate=True)
    assert list(mx.nd.load(path)) == ["0.weight"]
    net.load_parameters(path)


def test_a_sparse_embedding_before_a_dense_layer() -> None:
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


def test_other_calls() -> None:
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


def test_what_blocks_refuse() -> None:
    with pytest.raises(ValueError, match="must also be HybridBlock"):
        nn.HybridSequential().add(nn.Sequential())
    net = _network()
    with pytest.raises(UsageError, match="Overriding Parameter attribute weight"):
        net[0].weight = mx.gluon.Parameter("other")
    with pytest.raises(UsageError, match="called with NDArrays or Symbols, got int"):
        net(3)
    with pytest.raises(NotImplementedError, match="Block must define forward"):
        mx.gluon.Block()(1)
