"""Operator hooks: names and values of MXNet 1.9.1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.gluon import nn

DENSE = ["dense_dense0_fwd_data", "dense_dense0_fwd_weight", "dense_dense0_fwd_bias"]

CASES: dict[str, tuple[Any, list[Any], bool, list[str], list[str]]] = {
    # Prefix of the network, its layers, whether inputs are shown; expected names and operators.
    "outputs": (
        "dense_",
        [lambda: nn.Dense(2)],
        False,
        ["dense_dense0_fwd_output"],
        ["FullyConnected"],
    ),
    "activation": (
        "relu_",
        [lambda: nn.Activation("relu")],
        False,
        ["relu_relu0_fwd_output"],
        ["Activation"],
    ),
    "inputs": (
        "pool_",
        [nn.AvgPool1D],
        True,
        ["pool_pool0_fwd_data", "pool_pool0_fwd_output"],
        ["Pooling", "Pooling"],
    ),
    "layers": (
        "dense_",
        [lambda: nn.Dense(2), lambda: nn.Activation("relu")],
        True,
        [*DENSE, "dense_dense0_fwd_output", "dense_relu0_fwd_input0", "dense_relu0_fwd_output"],
        [*["FullyConnected"] * 4, *["Activation"] * 2],
    ),
}


def _net(prefix: str, layers: list[Any]) -> nn.HybridSequential:
    net = nn.HybridSequential(prefix=prefix)
    with net.name_scope():
        for layer in layers:
            net.add(layer())
    net.initialize()
    return net


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("case_id", CASES)
def test_names_match_mxnets(case_id: str, when: str) -> None:
    prefix, layers, monitor_all, names, operators = CASES[case_id]
    net, x = _net(prefix, layers), mx.nd.ones((2, 3, 4))
    seen: list[tuple[str, str, np.ndarray]] = []

    def hook(name: str, operator: str, array: mx.nd.NDArray) -> None:
        seen.append((name, operator, array.asnumpy().copy()))

    if when == "before":
        net.register_op_hook(hook, monitor_all)
        net(x)
        assert not seen  # only while it is not hybridized
    net.hybridize()
    net(x)
    seen.clear()
    if when == "after":
        net.register_op_hook(hook, monitor_all)
    y = net(x)
    assert [name for name, _, _ in seen] == names
    assert [operator for _, operator, _ in seen] == operators
    np.testing.assert_array_equal(seen[-1][2], y.asnumpy())


def test_hooks_see_recorded_passes() -> None:
    net = _net("net_", [lambda: nn.Dense(2)])
    net.hybridize()
    seen: list[str] = []
    net.register_op_hook(lambda name, operator, array: seen.append(name))
    with mx.autograd.record():
        y = net(mx.nd.ones((2, 3)))
    assert seen == ["net_dense0_fwd_output"]
    y.backward()
    assert len(seen) == 1
    assert net.collect_params()["net_dense0_bias"].grad().asnumpy().tolist() == [2, 2]


def test_optimize_for_works_before_the_first_call() -> None:
    net, x = _net("net_", [lambda: nn.Dense(2, in_units=3)]), mx.nd.ones((2, 3))
    expected = net(x).asnumpy()
    net.optimize_for(x, backend="MKLDNN")
    np.testing.assert_allclose(net(x).asnumpy(), expected, rtol=1e-6)
    with pytest.raises(ValueError, match='Must specify "backend"'):
        net.optimize_for(x)
