"""Recomputation in the backward pass: the same gradients in less memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.compiler.compile import CompileOptions
from core.compiler.rematerialization import Rematerialization
from core.config import Config
from core.executor import bind

ON = Rematerialization(is_on=True)


def chain(length: int = 8) -> mx.sym.Symbol:
    """Layers with functions in between whose backward passes need all values."""
    data = mx.sym.Variable("data")
    for index in range(length):
        data = mx.sym.FullyConnected(data, num_hidden=32, name=f"fc{index}")
        slope = mx.sym.sigmoid(data, name=f"slope{index}")
        grown = mx.sym.exp(slope, name=f"exp{index}")
        data = mx.sym.square(mx.sym.tanh(slope * data)) * grown
    return mx.sym.sum(data)


def residual(forced: bool, units: int = 4) -> mx.sym.Symbol:
    attributes = {"force_mirroring": "True"} if forced else {}
    data = mx.sym.Variable("data")
    for index in range(units):
        data = mx.sym.Convolution(
            data, kernel=(3, 3), pad=(1, 1), num_filter=16, no_bias=True, name=f"conv{index}"
        )
        with mx.AttrScope(**attributes):
            data = mx.sym.BatchNorm(data, fix_gamma=False, name=f"norm{index}")
            data = mx.sym.Activation(data, act_type="relu", name=f"relu{index}")
            data = mx.sym.Pooling(
                data, kernel=(3, 3), pad=(1, 1), stride=(1, 1), pool_type="max", name=f"pool{index}"
            )
    return mx.sym.sum(data)


def train(
    symbol: mx.sym.Symbol, shape: tuple[int, ...], options: CompileOptions, steps: int = 2
) -> tuple[dict[str, np.ndarray], int, list[str]]:
    """Return gradients and states by name, the arena's size in bytes and the steps as text."""
    random = np.random.RandomState(1)
    shapes, _, aux_shapes = symbol.infer_shape(data=shape)
    names = zip(symbol.list_arguments(), shapes, strict=True)
    arguments = {name: mx.nd.array(random.randn(*one) * 0.2) for name, one in names}
    auxiliary = {
        name: mx.nd.ones(one)
        for name, one in zip(symbol.list_auxiliary_states(), aux_shapes, strict=True)
    }
    gradients = {name: mx.nd.zeros(one.shape) for name, one in arguments.items()}
    executor = bind(
        symbol, mx.cpu(), arguments, gradients, "write", aux_states=auxiliary, options=options
    )
    for _ in range(steps):
        executor.forward(is_train=True)
        executor.backward([mx.nd.ones((1,))])
    found = {name: one.asnumpy() for name, one in executor.grad_dict.items()}
    found |= {name: one.asnumpy() for name, one in executor.aux_dict.items()}
    plan = executor._plans[next(iter(executor._plans))]
    return found, plan.memory.arena, [str(step) for step in plan.compiled.program.steps]


def assert_equal(got: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert got.keys() == expected.keys()
    for name, wanted in expected.items():
        np.testing.assert_array_equal(got[name], wanted, err_msg=name)


@pytest.mark.parametrize("kernels", [{}, {"table": None}], ids=["kernels", "references"])
def test_a_chain_of_functions_needs_less_memory(kernels: dict[str, Any]) -> None:
    expected, before, _ = train(chain(), (64, 32), CompileOptions(**kernels))
    got, after, steps = train(chain(), (64, 32), CompileOptions(rematerialization=ON, **kernels))
    assert_equal(got, expected)
    assert after < 0.8 * before
    assert steps.count("exp 'exp0'") == 2


@pytest.mark.parametrize("kernels", [{}, {"table": None}], ids=["kernels", "references"])
def test_nodes_marked_for_recomputation_are_recomputed(kernels: dict[str, Any]) -> None:
    options = CompileOptions(**kernels)
    expected, before, _ = train(residual(forced=False), (4, 16, 12, 12), options)
    got, after, steps = train(residual(forced=True), (4, 16, 12, 12), options)
    for name, wanted in expected.items():
        np.testing.assert_allclose(got[name], wanted, rtol=1e-4, atol=1e-5, err_msg=name)
    assert after < 0.8 * before
    assert steps.count("BatchNorm 'norm0'") == 2


def test_recomputation_that_would_save_no_memory_is_left_out() -> None:
    data = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc0")
    data = mx.sym.Activation(data, act_type="relu", name="relu")
    symbol = mx.sym.sum(mx.sym.FullyConnected(data, num_hidden=8, name="fc1"))
    _, before, plain = train(symbol, (4, 8), CompileOptions())
    _, after, mirrored = train(symbol, (4, 8), CompileOptions(rematerialization=ON))
    assert (before, plain) == (after, mirrored)


def test_the_interval_keeps_every_nth_value() -> None:
    every = train(chain(), (64, 32), CompileOptions(rematerialization=ON))[2]
    second = train(chain(), (64, 32), CompileOptions(rematerialization=Rematerialization(True, 2)))[
        2
    ]
    none = train(chain(), (64, 32), CompileOptions(rematerialization=Rematerialization(True, 1)))[2]
    assert len(every) > len(second) > len(none)
    assert len(none) == len(train(chain(), (64, 32), CompileOptions())[2])


def test_random_operators_run_only_once() -> None:
    with mx.AttrScope(force_mirroring="True"):
        data = mx.sym.Dropout(mx.sym.Variable("data"), p=0.5, name="drop")
        data = mx.sym.square(mx.sym.tanh(data))
    _, _, steps = train(mx.sym.sum(data), (16, 16), CompileOptions())
    assert steps.count("Dropout 'drop'") == 1


def test_reshapes_are_looked_through() -> None:
    data = mx.sym.Variable("data") * 2
    with mx.AttrScope(force_mirroring="True"):
        data = mx.sym.Flatten(mx.sym.exp(data, name="grow"))
    symbol = mx.sym.sum(mx.sym.FullyConnected(data, num_hidden=4, name="fc"))
    got, _, steps = train(symbol, (4, 3, 5), CompileOptions())
    assert steps.count("exp 'grow'") == 2
    assert not any("Flatten" in step for step in steps)
    data = mx.sym.Flatten(mx.sym.exp(mx.sym.Variable("data") * 2))
    symbol = mx.sym.sum(mx.sym.FullyConnected(data, num_hidden=4, name="fc"))
    assert_equal(got, train(symbol, (4, 3, 5), CompileOptions())[0])


def test_an_environment_variable_turns_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    arenas = []
    for mirror in (False, True):
        monkeypatch.setattr("core.executor.executor.config", Config(mirror=mirror))
        executor = chain().simple_bind(mx.cpu(), data=(64, 32))
        arenas.append(executor.memory_report().plans["training"].arena)
    assert arenas[1] < 0.8 * arenas[0]
