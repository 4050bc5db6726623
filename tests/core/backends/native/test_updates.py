"""The one-pass kernels of optimizers against float64 implementations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import core as mx
from core.backends import steps
from core.backends.native import is_available, updates
from core.backends.native.updates import update
from core.backends.steps import FusedStep, GradientTerms, UpdateRule

pytestmark = pytest.mark.skipif(not is_available(), reason="the kernels are not compiled")

TERMS = GradientTerms(rescale=1 / 32, clip=0.0, decay=0.0)


def descent(by: Any, w: Any, g: Any) -> tuple[Any, ...]:
    return (w - by.rate * g,)


def momentum(by: Any, w: Any, g: Any, velocity: Any) -> tuple[Any, ...]:
    velocity = by.momentum * velocity - by.rate * g
    return w + velocity, velocity


def nesterov(by: Any, w: Any, g: Any, velocity: Any) -> tuple[Any, ...]:
    velocity = by.momentum * velocity - by.rate * g
    change = by.momentum * velocity - by.rate * g
    return w + change, velocity - by.rate * by.late_decay * change


def signs(by: Any, w: Any, g: Any, velocity: Any) -> tuple[Any, ...]:
    velocity = by.momentum * velocity - (1 - by.momentum) * g
    return by.keep * w + by.rate * np.sign(velocity), velocity


def adam(by: Any, w: Any, g: Any, mean: Any, square: Any) -> tuple[Any, ...]:
    mean = by.keep_mean * mean + (1 - by.keep_mean) * g
    square = by.keep_square * square + (1 - by.keep_square) * g**2
    return w - by.rate * mean / (np.sqrt(square) + by.epsilon), mean, square


def adagrad(by: Any, w: Any, g: Any, history: Any) -> tuple[Any, ...]:
    history = history + g**2
    return w - by.rate * (g / np.sqrt(history + by.epsilon) + by.decay * w), history


def limited(weight: Any, limit: float) -> Any:
    return np.clip(weight, -limit, limit) if limit else weight


def root_mean_square(by: Any, w: Any, g: Any, square: Any) -> tuple[Any, ...]:
    square = by.keep * square + (1 - by.keep) * g**2
    return limited(w - by.rate * g / np.sqrt(square + by.epsilon), by.limit), square


def centered(by: Any, w: Any, g: Any, square: Any, mean: Any, delta: Any) -> tuple[Any, ...]:
    square = by.keep * square + (1 - by.keep) * g**2
    mean = by.keep * mean + (1 - by.keep) * g
    delta = by.momentum * delta - by.rate * g / np.sqrt(square - mean**2 + by.epsilon)
    return limited(w + delta, by.limit), square, mean, delta


def leader(by: Any, w: Any, g: Any, z: Any, n: Any) -> tuple[Any, ...]:
    squares = n + g**2
    z = z + g - (np.sqrt(squares) - np.sqrt(n)) * w / by.rate
    bounded = np.clip(z, -by.threshold, by.threshold)
    return (bounded - z) / ((by.beta + np.sqrt(squares)) / by.rate + by.decay), z, squares


Reference = Callable[..., tuple[Any, ...]]
RULES: list[tuple[UpdateRule, int, Reference]] = [
    (steps.Descent(0.05), 0, descent),
    (steps.MomentumDescent(0.05, 0.9), 1, momentum),
    (steps.MomentumDescent(0.0, 0.9), 1, momentum),
    (steps.NesterovDescent(0.05, 0.9, 0.0), 1, nesterov),
    (steps.NesterovDescent(0.05, 0.9, 0.1), 1, nesterov),
    (steps.SignDescent(0.05, 0.75, 0.99), 1, signs),
    (steps.Adam(0.01, 0.75, 0.875, 1e-3), 2, adam),
    (steps.AdaGrad(0.05, 1e-3, 0.0), 1, adagrad),
    (steps.AdaGrad(0.05, 1e-3, 0.1), 1, adagrad),
    (steps.RootMeanSquare(0.01, 0.875, 1e-3, 0.0), 1, root_mean_square),
    (steps.RootMeanSquare(0.01, 0.875, 1e-3, 0.5), 1, root_mean_square),
    (steps.CenteredRootMeanSquare(0.01, 0.875, 0.75, 1e-2, 0.0), 3, centered),
    (steps.CenteredRootMeanSquare(0.01, 0.875, 0.75, 1e-2, 0.5), 3, centered),
    (steps.FollowTheLeader(0.1, 0.25, 1.0, 0.01), 2, leader),
]


def arrays(size: int, states: int) -> list[np.ndarray]:
    """Return weight, gradient and states; all states but the first are positive, like squares."""
    random = np.random.RandomState(3)
    signed = [random.randn(size).astype(np.float32) for _ in range(2)]
    first = 0.1 * random.randn(size) if states in (1, 2) else random.rand(size) + 1
    rest = [random.rand(size) * 0.1 for _ in range(states)]
    if states == 1:
        first = np.abs(first)
    return [*signed, *(one.astype(np.float32) for one in [first, *rest][:states])]


def reference_update(
    given: Sequence[np.ndarray], step: FusedStep, rule: Reference
) -> tuple[Any, ...]:
    weight, gradient, *states = (one.astype(np.float64) for one in given)
    terms = step.gradient
    g = gradient * terms.rescale
    if terms.decays_first:
        g = g + terms.decay * weight
    if terms.clip:
        g = np.clip(g, -terms.clip, terms.clip)
    if not terms.decays_first:
        g = g + terms.decay * weight
    return rule(step.rule, weight, g, *states)


def short_name(value: object) -> str:
    """Return an id that is the same in every process, unlike a function's address."""
    return getattr(value, "__name__", str(value)[:30])


@pytest.mark.parametrize("size", [1, 16, 31, 100_003])
@pytest.mark.parametrize(
    "changes",
    [
        *({}, {"decay": 1e-4}, {"clip": 0.01}, {"clip": 0.01, "decay": 0.1}, {"decay": 1e-20}),
        {"clip": 0.01, "decay": 0.1, "decays_first": True},
    ],
    ids=lambda changes: "-".join(changes) or "plain",
)
@pytest.mark.parametrize(("rule", "count", "formula"), RULES, ids=short_name)
def test_matches_the_float64_reference(
    rule: UpdateRule, count: int, formula: Reference, changes: dict[str, Any], size: int
) -> None:
    step = FusedStep(dataclasses.replace(TERMS, **changes), rule)
    # The arrays lie inside larger ones, whose other elements must not change.
    whole = arrays(size + 20, count)
    before = [one.copy() for one in whole]
    given = [one[7 : 7 + size] for one in whole]
    expected = reference_update(given, step, formula)
    assert update(given[0], given[1], given[2:], step)
    for got, value in zip([given[0], *given[2:]], expected, strict=True):
        np.testing.assert_allclose(got, value, rtol=3e-6, atol=2e-6)
    for now, then in zip(whole, before, strict=True):
        now[7 : 7 + size] = then[7 : 7 + size]
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize(("rule", "count", "formula"), RULES, ids=short_name)
def test_clipping_keeps_nan(rule: UpdateRule, count: int, formula: Reference) -> None:
    given = arrays(20, count)
    given[1][:3] = np.nan, np.inf, -np.inf
    step = FusedStep(dataclasses.replace(TERMS, clip=0.5), rule)
    expected = reference_update(given, step, formula)
    assert update(given[0], given[1], given[2:], step)
    assert np.isnan(given[0][0])
    for got, value in zip([given[0], *given[2:]], expected, strict=True):
        np.testing.assert_allclose(got, value, rtol=3e-6, atol=2e-6)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_unsupported_arrays_are_left_untouched(which: int) -> None:
    step = FusedStep(TERMS, steps.MomentumDescent(0.05, 0.9))
    for change in (lambda one: one.astype("float64"), lambda one: np.repeat(one, 2)[::2]):
        given = arrays(64, 1)
        given[which] = change(given[which])
        before = [one.copy() for one in given]
        assert not update(given[0], given[1], given[2:], step)
        for now, then in zip(given, before, strict=True):
            np.testing.assert_array_equal(now, then)


OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("sgd", {}),
    ("sgd", {"momentum": 0.9}),
    ("nag", {}),
    ("nag", {"momentum": 0.9}),
    ("signum", {"wd_lh": 0.1}),
    ("adam", {}),
    ("adagrad", {}),
    ("rmsprop", {"clip_weights": 0.5}),
    ("rmsprop", {"centered": True}),
    ("ftrl", {}),
]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    "options",
    [
        *({}, {"wd": 0.01}, {"clip_gradient": 0.02}, {"clip_gradient": -1.0}),
        {"wd": 0.01, "clip_gradient": 0.02, "rescale_grad": 0.1},
    ],
    ids=lambda options: "-".join(options) or "plain",
)
@pytest.mark.parametrize(("name", "own"), OPTIMIZERS, ids=str)
def test_optimizers_update_weights_as_their_numpy_rules_do(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    own: dict[str, Any],
    dtype: str,
    options: dict[str, float],
) -> None:
    given, gradient = (array.astype(dtype) for array in arrays(1003, 0))

    def train() -> list[np.ndarray]:
        optimizer = mx.optimizer.create(
            name, learning_rate=0.05, multi_precision=True, **own, **options
        )
        weight, gradients = mx.nd.array(given, dtype=dtype), mx.nd.array(gradient, dtype=dtype)
        state = optimizer.create_state_multi_precision(0, weight)
        for _ in range(3):
            optimizer.update_multi_precision(0, weight, gradients, state)
        return [weight.asnumpy(), *(one.asnumpy() for one in flattened(state))]

    taken: list[bool] = []

    def noted(*arguments: Any) -> bool:
        taken.append(update(*arguments))
        return taken[-1]

    monkeypatch.setattr("core.backends.numpy_.update", noted)
    with_kernel = train()
    assert taken == [True] * 3
    monkeypatch.setattr(updates, "library", lambda: None)
    on_numpy = train()
    assert taken[3:] == [False] * 3
    for got, expected in zip(with_kernel, on_numpy, strict=True):
        # A float16 weight is its float32 copy, rounded; the last bit may differ.
        tolerance = 1e-3 if got.dtype == np.float16 else 3e-6
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=2e-6)


def flattened(state: Any) -> list[mx.nd.NDArray]:
    if isinstance(state, tuple):
        return [one for part in state for one in flattened(part)]
    return [] if state is None else [state]
