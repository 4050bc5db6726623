"""The one-pass SGD kernel against a float64 implementation."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import core as mx
from core.backends import Descent
from core.backends.native import descent, is_available
from core.backends.native.descent import descend

pytestmark = pytest.mark.skipif(not is_available(), reason="the kernels are not compiled")

STEP = Descent(rescale=1 / 32, clip=0.0, decay=0.0, rate=0.05, momentum=0.9)


def arrays(size: int) -> list[np.ndarray]:
    random = np.random.RandomState(3)
    return [random.randn(size).astype(np.float32) for _ in range(3)]


def reference_update(
    weight: np.ndarray, velocity: np.ndarray | None, gradient: np.ndarray, step: Descent
) -> tuple[np.ndarray, np.ndarray]:
    wide = np.float64
    share = gradient.astype(wide) * step.rescale
    if step.clip:
        share = np.clip(share, -step.clip, step.clip)
    moved = -step.rate * (share + step.decay * weight.astype(wide))
    if velocity is not None:
        moved += step.momentum * velocity.astype(wide)
    return weight + moved, moved


@pytest.mark.parametrize("size", [1, 16, 31, 100_003])
@pytest.mark.parametrize("has_velocity", [True, False])
@pytest.mark.parametrize(
    "changes",
    [
        *({}, {"decay": 1e-4}, {"clip": 0.01}, {"clip": 0.01, "decay": 0.1}),
        *({"rate": 0.0}, {"momentum": 0.0}, {"decay": 1e-20}),
    ],
    ids=lambda changes: "-".join(changes) or "plain",
)
def test_matches_the_float64_reference(
    size: int, has_velocity: bool, changes: dict[str, float]
) -> None:
    step = dataclasses.replace(STEP, **changes)
    # The arrays lie inside larger ones, whose other elements must not change.
    whole = arrays(size + 20)
    weight, gradient, kept = (one[7 : 7 + size] for one in whole)
    velocity = kept if has_velocity else None
    before = [one.copy() for one in whole]
    expected_weight, expected_velocity = reference_update(weight, velocity, gradient, step)
    assert descend(weight, velocity, gradient, step)
    np.testing.assert_allclose(weight, expected_weight, rtol=2e-6, atol=1e-6)
    if has_velocity:
        np.testing.assert_allclose(kept, expected_velocity, rtol=2e-6, atol=1e-6)
    weight[:], kept[:] = before[0][7 : 7 + size], before[2][7 : 7 + size]
    for now, then in zip(whole, before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_clipping_keeps_nan() -> None:
    weight, gradient, velocity = arrays(20)
    gradient[:3] = np.nan, np.inf, -np.inf
    step = dataclasses.replace(STEP, clip=0.5)
    expected, _ = reference_update(weight, velocity, gradient, step)
    assert descend(weight, velocity, gradient, step)
    assert np.isnan(weight[0])
    np.testing.assert_allclose(weight, expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(("dtype", "clip"), [("float64", 0.0), ("float32", -1.0)])
def test_unsupported_arrays_are_left_untouched(dtype: str, clip: float) -> None:
    weight, gradient, velocity = (one.astype(dtype) for one in arrays(64))
    before = weight.copy()
    assert not descend(weight, velocity, gradient, dataclasses.replace(STEP, clip=clip))
    strided = np.zeros((64, 2), np.float32)[:, 0]
    assert not descend(strided, None, arrays(64)[0], STEP)
    np.testing.assert_array_equal(weight, before)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize(
    "options",
    [
        *({}, {"wd": 0.01}, {"clip_gradient": 0.02}, {"clip_gradient": -1.0}),
        {"wd": 0.01, "clip_gradient": 0.02, "rescale_grad": 0.1},
    ],
    ids=lambda options: "-".join(options) or "plain",
)
def test_sgd_updates_weights_as_the_numpy_rule_does(
    monkeypatch: pytest.MonkeyPatch, dtype: str, momentum: float, options: dict[str, float]
) -> None:
    given, gradient, _ = (array.astype(dtype) for array in arrays(1003))

    def train() -> list[np.ndarray]:
        optimizer = mx.optimizer.SGD(
            learning_rate=0.05, momentum=momentum, multi_precision=True, **options
        )
        weight, gradients = mx.nd.array(given, dtype=dtype), mx.nd.array(gradient, dtype=dtype)
        state = optimizer.create_state_multi_precision(0, weight)
        for _ in range(3):
            optimizer.update_multi_precision(0, weight, gradients, state)
        kept = state if isinstance(state, tuple) else (state,)
        return [array.asnumpy() for array in (weight, *kept) if array is not None]

    taken: list[bool] = []

    def noted(*arguments: Any) -> bool:
        taken.append(descend(*arguments))
        return taken[-1]

    monkeypatch.setattr("core.backends.numpy_.descend", noted)
    with_kernel = train()
    assert taken == [options.get("clip_gradient", 0) >= 0] * 3
    monkeypatch.setattr(descent, "library", lambda: None)
    on_numpy = train()
    assert taken[3:] == [False] * 3
    for got, expected in zip(with_kernel, on_numpy, strict=True):
        # A float16 weight is its float32 copy, rounded; the last bit may differ.
        tolerance = 1e-3 if got.dtype == np.float16 else 2e-6
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=1e-6)
