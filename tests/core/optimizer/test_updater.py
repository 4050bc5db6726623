"""One pass over flat buffers gives the results of updating each parameter alone."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import core as mx
from core.executor.flat import FlatBuffer
from core.ndarray import NDArray

SHAPES = {"a_weight": (7, 3), "b_weight": (5,), "c_bias": (3,), "d_gamma": (70000,)}
FLAT = {
    "sgd": {"learning_rate": 0.1},
    "sgd_momentum": {"learning_rate": 0.1, "momentum": 0.9},
    "nag": {"learning_rate": 0.1, "momentum": 0.9},
    "adam": {"learning_rate": 0.01},
    "rmsprop": {"learning_rate": 0.01},
    "rmsprop_centered": {"learning_rate": 0.01, "centered": True},
    "adagrad": {"learning_rate": 0.1},
    "adadelta": {},
    "adamax": {"learning_rate": 0.01},
    "dcasgd": {"learning_rate": 0.1},
    "dcasgd_momentum": {"learning_rate": 0.1, "momentum": 0.9},
    "ftml": {"learning_rate": 0.01},
    "ftrl": {"learning_rate": 0.1},
    "signum": {"learning_rate": 0.01},
    "signum_plain": {"learning_rate": 0.01, "momentum": 0.0},
    "test": {},
}
WHOLE = {
    "lamb": {"learning_rate": 0.01},
    "lars": {"learning_rate": 0.1, "momentum": 0.9},
    "lbsgd": {"learning_rate": 0.1, "momentum": 0.9, "batch_scale": 3},
    "nadam": {"learning_rate": 0.01},
    "sgld": {"learning_rate": 0.01},
}
"""Those that need a parameter as a whole."""

OPTIMIZERS = {**FLAT, **WHOLE}
INDEX = {name: i for i, name in enumerate(SHAPES)}


def make(name: str) -> mx.optimizer.Updater:
    options = dict(OPTIMIZERS[name], wd=0.01, clip_gradient=0.8, rescale_grad=0.5)
    optimizer = mx.optimizer.create(
        name.split("_")[0], param_idx2name={i: n for n, i in INDEX.items()}, **options
    )
    optimizer.set_lr_mult({"b_weight": 2.0})
    return mx.optimizer.get_updater(optimizer)


def fill(buffer: FlatBuffer, seed: int) -> None:
    random = np.random.RandomState(seed)
    for view in buffer.views.values():
        view[...] = random.randn(*view.shape)


def steps(updater: mx.optimizer.Updater, weights: FlatBuffer, seeds: range) -> None:
    """Update once with each seed's gradients, as a Module does."""
    grads = weights.like()
    for seed in seeds:
        fill(grads, seed)
        if updater.can_update_flat(weights):
            updater.update_flat(INDEX, weights, grads)
            continue
        for name, key in INDEX.items():
            gradient, weight = grads.views[name], weights.views[name]
            updater(key, NDArray(gradient, mx.cpu()), NDArray(weight, mx.cpu()))


def test_which_optimizers_update_flat_buffers() -> None:
    flat = FlatBuffer(SHAPES, np.dtype("float32"), mx.cpu())
    assert {name for name in OPTIMIZERS if make(name).can_update_flat(flat)} == set(FLAT)
    halves = FlatBuffer(SHAPES, np.dtype("float16"), mx.cpu())
    kept = mx.optimizer.get_updater(mx.optimizer.create("sgd", multi_precision=True))
    assert kept.can_update_flat(flat)
    assert not kept.can_update_flat(halves)


@pytest.mark.parametrize("name", FLAT)
def test_flat_updates_match_separate_ones(name: str) -> None:
    flat = FlatBuffer(SHAPES, np.dtype("float32"), mx.cpu())
    fill(flat, 0)
    grads = flat.like()
    single = {n: NDArray(view.copy(), mx.cpu()) for n, view in flat.views.items()}
    one, many = make(name), make(name)
    for step in range(3):
        fill(grads, step + 1)
        many.update_flat(INDEX, flat, grads)
        for parameter, key in INDEX.items():
            one(key, NDArray(grads.views[parameter], mx.cpu()), single[parameter])
    for parameter, values in single.items():
        np.testing.assert_array_equal(flat.views[parameter], values.asnumpy(), err_msg=parameter)
    assert one.get_states() == many.get_states()


def test_flat_states_belong_to_their_buffer() -> None:
    updater = make("sgd_momentum")
    flat = FlatBuffer(SHAPES, np.dtype("float32"), mx.cpu())
    steps(updater, flat, range(1))
    assert len(updater._flat_states) == 1
    del flat
    gc.collect()
    assert not updater._flat_states


@pytest.mark.parametrize("name", FLAT)
def test_padding_stays_zero(name: str) -> None:
    flat = FlatBuffer(SHAPES, np.dtype("float32"), mx.cpu())
    fill(flat, 0)
    updater = make(name)
    steps(updater, flat, range(2))
    assert all(np.isfinite(states.data).all() for states in updater._flat_states[flat])
    for view in flat.views.values():
        view[...] = 0
    np.testing.assert_array_equal(flat.data, 0)


@pytest.mark.parametrize("name", FLAT)
def test_training_continues_after_loading_states(name: str) -> None:
    whole, parts = (FlatBuffer(SHAPES, np.dtype("float32"), mx.cpu()) for _ in range(2))
    fill(whole, 0)
    fill(parts, 0)
    steps(make(name), whole, range(1, 5))
    first, second = make(name), make(name)
    steps(first, parts, range(1, 3))
    second.set_states(first.get_states())
    # A Module's states hold no update counts (as in MXNet); they are carried over separately.
    second.optimizer._all_index_update_counts = first.optimizer._all_index_update_counts
    second.optimizer.num_update = first.optimizer.num_update
    steps(second, parts, range(3, 5))
    np.testing.assert_array_equal(parts.data, whole.data)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_continues_after_loading_states_and_optimizer(name: str) -> None:
    whole, parts = (FlatBuffer(SHAPES, np.dtype("float32"), mx.cpu()) for _ in range(2))
    fill(whole, 0)
    fill(parts, 0)
    mx.random.seed(3)
    steps(make(name), whole, range(1, 5))
    mx.random.seed(3)
    first, second = make(name), make("sgd")
    steps(first, parts, range(1, 3))
    second.set_states(first.get_states(dump_optimizer=True))
    steps(second, parts, range(3, 5))
    np.testing.assert_array_equal(parts.data, whole.data)


def test_states_of_another_model_are_refused() -> None:
    flat = FlatBuffer({"a_weight": (2,)}, np.dtype("float32"), mx.cpu())
    updater = make("adam")
    updater.update_flat({"a_weight": 0}, flat, flat.like())
    other = make("adam")
    other.set_states(updater.get_states())
    wider = FlatBuffer({"a_weight": (3,)}, np.dtype("float32"), mx.cpu())
    with pytest.raises(ValueError, match=r"'a_weight' have shapes \[\(2,\), \(2,\)\]"):
        other.update_flat({"a_weight": 0}, wider, wider.like())


def test_states_of_another_optimizer_are_refused() -> None:
    updater = make("lamb")
    updater(0, mx.nd.ones((2, 3)), mx.nd.ones((2, 3)))
    other = make("nadam")
    other.set_states(updater.get_states())
    with pytest.raises(
        ValueError, match=r"'a_weight' have shapes \[\(2, 3\), \(2, 3\)\], expected"
    ):
        other(0, mx.nd.ones((2, 4)), mx.nd.ones((2, 4)))


def test_half_precision_weights_keep_float32_copies() -> None:
    weight = mx.nd.array([1.0, 2.0], dtype="float16")
    updater = mx.optimizer.get_updater(
        mx.optimizer.create("sgd", learning_rate=1e-4, momentum=0.9, multi_precision=True)
    )
    for _ in range(10):
        updater(0, mx.nd.ones((2,), dtype="float16"), weight)
    _, master = updater.states[0]
    assert master.dtype == np.float32
    assert weight.dtype == np.float16
    assert (master.asnumpy() < [1.0, 2.0]).all()


def test_lr_mult_and_wd_mult_of_parameters() -> None:
    weight = mx.sym.Variable("fc_weight", lr_mult=0.5, wd_mult=3.0)
    symbol = mx.sym.FullyConnected(mx.sym.Variable("data"), weight, num_hidden=2, name="fc")
    names = {0: "fc_weight", 1: "fc_bias"}
    optimizer = mx.optimizer.create(
        "sgd", learning_rate=1.0, wd=0.1, sym=symbol, param_idx2name=names
    )
    assert (optimizer._get_lr(0), optimizer._get_wd(0)) == (0.5, pytest.approx(0.3))
    assert (optimizer._get_lr(1), optimizer._get_wd(1)) == (1.0, 0.0)
    optimizer.set_learning_rate(2.0)
    assert optimizer.learning_rate == 2.0
    scheduled = mx.optimizer.create(
        "sgd", lr_scheduler=mx.lr_scheduler.FactorScheduler(1, factor=0.5, base_lr=1.0)
    )
    with pytest.raises(UserWarning, match="lr_scheduler"):
        scheduled.set_learning_rate(1.0)


def test_an_unknown_optimizer_suggests_a_name() -> None:
    with pytest.raises(ValueError, match="did you mean 'adam'"):
        mx.optimizer.create("adm")


@pytest.mark.parametrize("base", [mx.optimizer.SGD, mx.optimizer.Adam])
def test_modules_call_an_overridden_update(
    base: type[mx.optimizer.Optimizer],
) -> None:
    """One pass over flat buffers would bypass it."""
    seen = []

    class Watched(base):  # type: ignore[misc, valid-type]
        def update(self, index, weight, grad, state) -> None:
            seen.append((index, weight.shape))
            super().update(index, weight, grad, state)

    net = mx.sym.LinearRegressionOutput(
        mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1, name="fc"), name="softmax"
    )
    module = mx.mod.Module(net)
    iterator = mx.io.NDArrayIter(np.ones((4, 3)), np.ones((4, 1)), 4)
    module.fit(iterator, num_epoch=1, optimizer=Watched(rescale_grad=0.25), eval_metric="mse")
    assert sorted(seen) == [(0, (1, 3)), (1, (1,))]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", ["lamb", "adam", "sgd_momentum"])
def test_lists_of_weights_with_float32_copies(name: str, dtype: str) -> None:
    def optimizer() -> mx.optimizer.Optimizer:
        options = dict(OPTIMIZERS[name], multi_precision=True)
        return mx.optimizer.create(name.split("_")[0], **options)

    start = [mx.nd.array([1, 2], dtype=dtype), mx.nd.array([3, 4, 5], dtype=dtype)]
    gradients = [array * 0.25 - 1 for array in start]
    results = []
    for together in (True, False):
        weights, made = [array.copy() for array in start], optimizer()
        states = [made.create_state_multi_precision(i, w) for i, w in enumerate(weights)]
        if together:
            made.update_multi_precision([0, 1], weights, gradients, states)
        else:
            for each in zip(range(2), weights, gradients, states, strict=True):
                made.update_multi_precision(*each)
        results.append([weight.asnumpy().tolist() for weight in weights])
    assert results[0] == results[1] != [array.asnumpy().tolist() for array in start]
