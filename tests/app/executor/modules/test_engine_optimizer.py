"""An optimizer moved from one module to another continues as if it had stayed."""

from __future__ import annotations

import json
import tempfile
from typing import Any

import numpy as np
import pytest

import core as mx
from app.domain.module import OptimizerSpec
from app.errors.tree import HostError, Invalid
from app.executor.modules.engine_optimizer import (
    Parked,
    check_saved,
    install_optimizer,
    load_states,
    optimizer_of,
    park_optimizer,
    states_of,
    unpark_optimizer,
)
from core.checkpoint import write_states

SHAPES = {"fc_weight": (3, 5), "fc_bias": (3,), "norm_gamma": (3,), "norm_beta": (3,)}
SCHEDULED = {"lr_scheduler": {"name": "factor", "step": 2, "factor": 0.5}}
FIXED = {"groupadagrad": ["fc_bias", "norm_gamma", "norm_beta"]}
"""It updates matrices only."""
OPTIMIZERS = sorted(set(mx.optimizer.Optimizer.opt_registry))


def make_module(spec: OptimizerSpec) -> mx.mod.Module:
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    x = mx.sym.BatchNorm(x, fix_gamma=False, name="norm")
    module = mx.mod.Module(
        mx.sym.SoftmaxOutput(x, name="softmax"),
        context=mx.cpu(),
        fixed_param_names=FIXED.get(spec.name, []),
    )
    module.bind([("data", (8, 5))], [("softmax_label", (8,))])
    random = np.random.RandomState(1)
    values = {name: mx.nd.array(random.randn(*shape)) for name, shape in SHAPES.items()}
    statistics = {"norm_moving_mean": mx.nd.zeros(3), "norm_moving_var": mx.nd.ones(3)}
    module.set_params(values, statistics)
    install_optimizer(module, spec, "optimizer.")
    return module


def train(module: mx.mod.Module, first: int, last: int) -> None:
    """Train these steps; each has its own batch and random numbers."""
    for step in range(first, last):
        random = np.random.RandomState(step)
        mx.random.seed(step)
        labels = mx.nd.array(random.randint(0, 3, 8))
        batch = mx.io.DataBatch([mx.nd.array(random.randn(8, 5))], [labels])
        module.forward_backward(batch)
        module.update()


def values(module: mx.mod.Module) -> dict[str, np.ndarray]:
    arguments, auxiliary = module.get_params()
    return {name: value.asnumpy() for name, value in {**arguments, **auxiliary}.items()}


@pytest.mark.parametrize("options", [{}, SCHEDULED], ids=["constant", "scheduled"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_it_continues_with_the_same_bits(name: str, options: dict[str, Any]) -> None:
    spec = OptimizerSpec(name=name, options=options)
    whole, first, second = make_module(spec), make_module(spec), make_module(spec)
    train(whole, 0, 6)
    train(first, 0, 3)
    parked = park_optimizer(first)
    second.set_params(*first.get_params())
    # As a checkpoint stores it: JSON beside MXNet's file of states.
    position = json.loads(json.dumps(parked.position))
    unpark_optimizer(second, Parked(position, parked.states))
    train(second, 3, 6)
    expected, got = values(whole), values(second)
    for key in expected:
        np.testing.assert_array_equal(got[key], expected[key], err_msg=key)
    assert not np.array_equal(got["fc_weight"], values(first)["fc_weight"])


def test_rescale_grad_stays_that_of_the_receiving_module() -> None:
    spec = OptimizerSpec(options={"momentum": 0.9})
    one, other = make_module(spec), make_module(spec)
    optimizer_of(other).rescale_grad = 0.5
    unpark_optimizer(other, park_optimizer(one))
    assert optimizer_of(other).rescale_grad == 0.5


def test_without_an_optimizer_there_is_nothing_to_park() -> None:
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    module = mx.mod.Module(x, label_names=None)
    assert optimizer_of(module) is None
    assert park_optimizer(module) is None


def test_states_of_another_model_change_nothing() -> None:
    spec = OptimizerSpec(options={"momentum": 0.9})
    module = make_module(spec)
    train(module, 0, 2)
    before = states_of(module)
    weights = module.get_params()[0]
    with pytest.raises(HostError, match=r"'fc_weight' has a state of shape \(3, 5\).* \(3, 6\)"):
        check_saved(module, before, {**weights, "fc_weight": mx.nd.zeros((3, 6))})
    for damaged in (b"", before[:-20], b"\x80\x03cos\nsystem\n(S'true'\ntR."):
        with pytest.raises(HostError):
            check_saved(module, damaged, weights)
    with pytest.raises(Invalid, match="a list, expected states by number"):
        check_saved(module, write_states([1]), weights)
    assert states_of(module) == before


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_accepts_its_own_states(name: str) -> None:
    module = make_module(OptimizerSpec(name=name))
    train(module, 0, 2)
    before = states_of(module)
    load_states(module, check_saved(module, before, module.get_params()[0]))
    assert states_of(module) == before


@pytest.mark.parametrize(
    ("name", "options", "other"),
    [
        ("sgd", {"momentum": 0.9}, "adam"),
        ("adam", {}, "sgd"),
        ("adam", {}, "rmsprop"),
        ("sgd", {}, "adagrad"),
    ],
)
def test_states_of_another_optimizer_are_refused(
    name: str, options: dict[str, Any], other: str
) -> None:
    module = make_module(OptimizerSpec(name=name, options=options))
    train(module, 0, 2)
    before = states_of(module)
    saved = make_module(OptimizerSpec(name=other))
    train(saved, 0, 1)
    with pytest.raises(Invalid, match="install the optimizer that they are of") as refused:
        check_saved(module, states_of(saved), module.get_params()[0])
    assert refused.value.errors[0].field == "states"
    assert states_of(module) == before


def test_states_with_their_optimizer_restore_its_counts_but_not_its_rates() -> None:
    spec = OptimizerSpec(name="adam", options={"learning_rate": 0.01})
    first, second = make_module(spec), make_module(OptimizerSpec(name="adam"))
    train(first, 0, 3)
    dumped = first._updates.updater.get_states(dump_optimizer=True)
    load_states(second, check_saved(second, dumped, second.get_params()[0]))
    assert states_of(second) == states_of(first)
    assert optimizer_of(second).num_update == 3
    assert optimizer_of(second).learning_rate == 0.001
    other = make_module(OptimizerSpec(name="adamax"))
    with pytest.raises(Invalid, match="states of Adam, expected states of Adamax"):
        check_saved(other, dumped, other.get_params()[0])


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (OptimizerSpec(name="sdg"), "optimizer.name"),
        (OptimizerSpec(options={"momentun": 0.9}), "optimizer.options.momentun"),
        (OptimizerSpec(options={"momentum": "0.9"}), "optimizer.options.momentum"),
        (OptimizerSpec(options={"learning_rate": float("inf")}), "optimizer.options.learning_rate"),
        (OptimizerSpec(kvstore="loca"), "optimizer.kvstore"),
    ],
)
def test_mismatched_specifications_are_refused(spec: OptimizerSpec, field: str) -> None:
    module = make_module(OptimizerSpec())
    before = optimizer_of(module)
    with pytest.raises(Invalid) as refused:
        install_optimizer(module, spec, "optimizer.")
    assert refused.value.field_errors()[0].field == field
    assert optimizer_of(module) is before


def test_states_travel_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = OptimizerSpec(name="adam", options={"learning_rate": 0.1})
    module, other = make_module(spec), make_module(spec)
    train(module, 0, 2)
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere/to/write")
    content = states_of(module)
    weights = dict(zip(SHAPES, map(mx.nd.zeros, SHAPES.values()), strict=True))
    load_states(other, check_saved(other, content, weights))
    assert states_of(other) == content
