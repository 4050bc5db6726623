"""What golden files do not cover: where we differ from MXNet, noise, and refusals."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import core as mx


def updated(
    optimizer: mx.optimizer.Optimizer, weight: np.ndarray, *grads: np.ndarray
) -> np.ndarray:
    """Return a weight after one update with each gradient."""
    updater = mx.optimizer.get_updater(optimizer)
    array = mx.nd.array(weight)
    for grad in grads:
        updater(0, mx.nd.array(grad), array)
    return array.asnumpy()


def test_dcasgd_with_momentum_follows_its_formula() -> None:
    random = np.random.RandomState(0)
    weight = random.randn(6).astype("float32")
    grads = [random.randn(6).astype("float32") for _ in range(4)]
    lr, wd, momentum, lamda = 0.1, 0.05, 0.9, 0.5
    expected, previous, state = weight.astype("float64"), weight.astype("float64"), np.zeros(6)
    for grad in grads:
        compensated = grad + wd * expected + lamda * grad**2 * (expected - previous)
        state = momentum * state - lr * compensated
        previous, expected = expected, expected + state
    optimizer = mx.optimizer.create(
        "dcasgd", learning_rate=lr, wd=wd, momentum=momentum, lamda=lamda
    )
    np.testing.assert_allclose(updated(optimizer, weight, *grads), expected, rtol=1e-5)


def test_adamax_does_not_move_weights_without_a_gradient() -> None:
    grad = np.array([0.0, 1.0, -1e-30], "float32")
    got = updated(mx.optimizer.create("adamax", learning_rate=0.1), np.ones(3, "float32"), grad)
    np.testing.assert_allclose(got, [1, 0.9, 1.1], rtol=1e-6)


@pytest.mark.parametrize("name", ["ftrl", "ftml"])
def test_a_learning_rate_of_0_changes_nothing(name: str) -> None:
    weight = np.array([1.0, -2.0], "float32")
    optimizer = mx.optimizer.create(name, learning_rate=0.1, param_idx2name={0: "a_weight"})
    optimizer.set_lr_mult({"a_weight": 0.0})
    np.testing.assert_array_equal(updated(optimizer, weight, weight, weight), weight)


def test_lbsgd_adds_up_gradients_even_if_their_array_is_reused() -> None:
    weight, grad = mx.nd.zeros((2,)), mx.nd.ones((2,))
    updater = mx.optimizer.get_updater(
        mx.optimizer.create("lbsgd", learning_rate=1.0, batch_scale=2, warmup_epochs=0)
    )
    updater(0, grad, weight)
    np.testing.assert_array_equal(weight.asnumpy(), 0)
    grad[:] = 3
    updater(0, grad, weight)
    # The mean gradient, 2, times the multiplier after warm-up, 2.
    np.testing.assert_array_equal(weight.asnumpy(), -4)


def test_lars_computes_norms_of_half_precision_in_float32() -> None:
    optimizer = mx.optimizer.create("lars", learning_rate=1.0, eta=0.1)
    weight = mx.nd.ones((70000,), dtype="float16")
    optimizer.update(0, weight, mx.nd.ones((70000,), dtype="float16"), None)
    np.testing.assert_allclose(weight.asnumpy(), 0.9, rtol=1e-3)


@pytest.mark.parametrize("name", ["sgd", "adam", "adadelta", "lamb"])
def test_a_negative_clip_gradient_is_no_limit(name: str) -> None:
    random = np.random.RandomState(1)
    weight, grad = random.randn(2, 7).astype("float32")
    limited, free = (
        updated(mx.optimizer.create(name, clip_gradient=limit), weight, grad)
        for limit in (-1.0, None)
    )
    assert (free != weight).all()
    np.testing.assert_array_equal(limited, free)


# -- sgld ---------------------------------------------------------------------------------------


def test_sgld_has_the_expected_drift_and_spread() -> None:
    mx.random.seed(1)
    optimizer = mx.optimizer.create(
        "sgld", learning_rate=0.04, wd=0.5, rescale_grad=2.0, clip_gradient=3.0
    )
    got = updated(optimizer, np.ones(200_000, "float32"), np.full(200_000, 5.0, "float32"))
    # 1 - 0.04 / 2 * (min(2 * 5, 3) + 0.5 * 1), with 5 standard errors.
    assert got.mean() == pytest.approx(0.93, abs=5 * 0.2 / 200_000**0.5)
    assert got.var() == pytest.approx(0.04, rel=5 * (2 / 200_000) ** 0.5)
    normal = (got - got.mean()) / got.std()
    assert (normal**3).mean() == pytest.approx(0, abs=5 * (6 / 200_000) ** 0.5)
    assert (normal**4).mean() == pytest.approx(3, abs=5 * (24 / 200_000) ** 0.5)


def test_sgld_samples_the_posterior() -> None:
    """The gradient of a standard normal's negative log density is the value itself."""
    mx.random.seed(2)
    rate, chains = 0.2, 50_000
    updater = mx.optimizer.get_updater(mx.optimizer.create("sgld", learning_rate=rate))
    weight = mx.nd.zeros((chains,))
    for _ in range(100):
        updater(0, weight.copy(), weight)
    values = weight.asnumpy()
    # At this step size the chain's stationary variance is 1 / (1 - rate / 4).
    variance = 1 / (1 - rate / 4)
    assert values.mean() == pytest.approx(0, abs=5 * (variance / chains) ** 0.5)
    assert values.var() == pytest.approx(variance, rel=5 * (2 / chains) ** 0.5)


def test_sgld_repeats_with_its_seed() -> None:
    def draw(seed: int) -> np.ndarray:
        mx.random.seed(seed)
        return updated(mx.optimizer.create("sgld"), np.zeros(9), np.zeros(9), np.zeros(9))

    np.testing.assert_array_equal(draw(5), draw(5))
    assert (draw(5) != draw(6)).all()


# -- refusals -----------------------------------------------------------------------------------


def test_group_adagrad_needs_matrices_and_no_weight_decay() -> None:
    names = {0: "fc_bias", 1: "fc_weight"}
    updater = mx.optimizer.get_updater(
        mx.optimizer.create("groupadagrad", wd=0.1, param_idx2name=names)
    )
    with pytest.raises(ValueError, match=r"'fc_bias' has shape \(3,\)"):
        updater(0, mx.nd.ones((3,)), mx.nd.ones((3,)))
    with pytest.raises(ValueError, match=r"'fc_weight' has 0\.1; set wd to 0"):
        updater(1, mx.nd.ones((2, 3)), mx.nd.ones((2, 3)))


def test_group_adagrad_has_mxnets_name() -> None:
    updater = mx.optimizer.get_updater(mx.optimizer.contrib.GroupAdaGrad())
    written = updater.get_states(dump_optimizer=True)
    assert b"mxnet.optimizer.contrib" in written
    updater.set_states(written)
    assert isinstance(updater.optimizer, mx.optimizer.contrib.GroupAdaGrad)


def test_invalid_options_of_lbsgd_are_refused() -> None:
    with pytest.raises(ValueError, match="'cubic'; expected one of linear, power2, sqrt, lars"):
        mx.optimizer.create("lbsgd", warmup_strategy="cubic")
    with pytest.raises(ValueError, match="batch_scale is 0"):
        mx.optimizer.create("lbsgd", batch_scale=0)


def test_set_lr_scale_is_refused_as_in_mxnet() -> None:
    with pytest.raises(DeprecationWarning, match="use set_lr_mult"):
        mx.optimizer.SGD().set_lr_scale({})


@pytest.mark.parametrize("rows", [[1, 3], []])
def test_group_adagrad_updates_only_rows_with_a_gradient(rows: list[int]) -> None:
    """Other rows stay as they are in MXNet, too: 0 is added to them."""
    values = np.zeros((5, 2), np.float32)
    values[rows] = [1, -2]
    weights, states = [], []
    for stype in ("default", "row_sparse"):
        updater = mx.optimizer.get_updater(mx.optimizer.create("groupadagrad", learning_rate=0.1))
        weight = mx.nd.ones((5, 2))
        for _ in range(2):
            updater(0, mx.nd.array(values).tostype(stype), weight)
        weights.append(weight.asnumpy())
        states.append(updater.states[0].asnumpy())
    np.testing.assert_array_equal(*weights)
    np.testing.assert_array_equal(*states)


# -- multipliers --------------------------------------------------------------------------------


def _multiplied() -> mx.sym.Symbol:
    weight = mx.sym.Variable("fc_weight", lr_mult=0.1)
    dense = mx.sym.FullyConnected(mx.sym.Variable("data"), weight, num_hidden=1, name="fc")
    return mx.sym.MakeLoss(dense)


def _bound(symbol: mx.sym.Symbol) -> mx.mod.Module:
    module = mx.mod.Module(symbol, label_names=None)
    module.bind([("data", (1, 2))])
    module.init_params(mx.init.One())
    return module


def test_an_optimizer_object_that_ignores_the_symbols_multipliers_is_warned_of() -> None:
    module = _bound(_multiplied())
    with pytest.warns(UserWarning, match=r"of fc_weight have no effect.*sym=symbol"):
        module.init_optimizer(optimizer=mx.optimizer.SGD(learning_rate=1.0))


@pytest.mark.parametrize("given", ["name", "symbol", "set"])
def test_multipliers_that_apply_cause_no_warning(given: str) -> None:
    symbol = _multiplied()
    module = _bound(symbol)
    optimizer: Any = "sgd"
    if given == "symbol":
        optimizer = mx.optimizer.SGD(learning_rate=1.0, sym=symbol)
    elif given == "set":
        optimizer = mx.optimizer.SGD(learning_rate=1.0)
        optimizer.set_lr_mult({"fc_weight": 0.1})
    options = {"learning_rate": 1.0} if given == "name" else {}
    module.init_optimizer(optimizer=optimizer, optimizer_params=options)
    module.forward_backward(mx.io.DataBatch([mx.nd.ones((1, 2))]))
    module.update()
    weight = module.get_params()[0]["fc_weight"].asnumpy()
    np.testing.assert_allclose(weight, 0.9)


def test_multipliers_that_a_trainer_overrides_are_warned_of() -> None:
    dense = mx.gluon.nn.Dense(1, in_units=2)
    dense.initialize()
    optimizer = mx.optimizer.SGD(learning_rate=1.0)
    optimizer.set_lr_mult({"dense0_weight": 0.0})
    with pytest.warns(UserWarning, match="lr_mult of dense0_weight has no effect"):
        mx.gluon.Trainer(dense.collect_params(), optimizer)
    with pytest.warns(UserWarning, match="wd_mult of 0 has no effect"):
        optimizer.set_wd_mult({0: 0.0})


@pytest.mark.parametrize("name", ["adam", "ftml", "lars", "sgd"])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copied_updater_goes_on_as_the_original(name: str, copied: Callable[[Any], Any]) -> None:
    symbol = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="fc")
    module = _bound(mx.sym.MakeLoss(symbol))
    options = {"momentum": 0.9} if name in ("lars", "sgd") else {}
    module.init_optimizer(optimizer=name, optimizer_params={"learning_rate": 0.1, **options})
    batch = mx.io.DataBatch([mx.nd.array([[1, 2]])])
    module.forward_backward(batch)
    module.update()  # the states are parts of flat buffers
    other = _bound(mx.sym.MakeLoss(symbol))
    other.set_params(*module.get_params())
    other._updater = copied(module._updater)
    other.optimizer_initialized = True
    for one in (module, other):
        one.forward_backward(batch)
        one.update()
    for name, value in module.get_params()[0].items():
        np.testing.assert_array_equal(other.get_params()[0][name].asnumpy(), value.asnumpy())
