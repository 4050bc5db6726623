"""The one-pass kernels of optimizers against float64 implementations."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import core as mx
from core.kernels import optimizer_steps
from core.kernels.native import is_available, optimizers
from core.kernels.native.optimizers import update
from core.kernels.optimizer_steps import FusedStep, UpdateRule

from ...backends.optimizer_rules import (
    CHANGES,
    RULES,
    TERMS,
    Reference,
    arrays,
    reference_update,
    short_name,
)

pytestmark = pytest.mark.skipif(not is_available(), reason="the kernels are not compiled")


@pytest.mark.parametrize("size", [1, 16, 31, 100_003])
@pytest.mark.parametrize(
    "changes",
    CHANGES,
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
    step = FusedStep(TERMS, optimizer_steps.Momentum(0.05, 0.9))
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

    monkeypatch.setattr("core.backends.numpy.update", noted)
    with_kernel = train()
    assert taken == [True] * 3
    monkeypatch.setattr(optimizers, "library", lambda: None)
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
