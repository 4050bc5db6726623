"""Gradient descent in one pass against the same in float64, written out."""

from __future__ import annotations

import dataclasses
import gc
import weakref

import numpy as np
import pytest

import core as mx
from core.backends import Descent
from core.backends.onednn import descent, is_available
from core.backends.onednn.descent import descend

pytestmark = pytest.mark.skipif(not is_available(), reason="oneDNN is not installed")

STEP = Descent(rescale=1 / 32, clip=0.0, decay=0.0, rate=0.05, momentum=0.9)


def arrays(size: int, count: int = 3) -> list[np.ndarray]:
    random = np.random.RandomState(3)
    return [random.randn(size).astype(np.float32) for _ in range(count)]


def written_out(
    weight: np.ndarray, velocity: np.ndarray | None, gradient: np.ndarray, step: Descent
) -> tuple[np.ndarray, np.ndarray | None]:
    wide = np.float64
    share = gradient.astype(wide) * step.rescale
    if step.clip:
        share = np.clip(share, -step.clip, step.clip)
    share += step.decay * weight.astype(wide)
    moved = -step.rate * share
    if velocity is None:
        return weight + moved, None
    moved += step.momentum * velocity.astype(wide)
    return weight + moved, moved


@pytest.mark.parametrize("size", [1024, 1031, 100_003])
@pytest.mark.parametrize("has_velocity", [True, False])
@pytest.mark.parametrize(
    "changes",
    [{}, {"decay": 1e-4}, {"clip": 0.01}, {"clip": 0.01, "decay": 0.1}, {"rate": 0.0}],
    ids=lambda changes: "-".join(changes) or "plain",
)
def test_equals_what_is_written_out(
    size: int, has_velocity: bool, changes: dict[str, float]
) -> None:
    step = dataclasses.replace(STEP, **changes)
    weight, gradient, kept = arrays(size)
    velocity = kept if has_velocity else None
    for _ in range(3):
        expected_weight, expected_velocity = written_out(weight, velocity, gradient, step)
        before = gradient.copy()
        assert descend(weight, velocity, gradient, step)
        np.testing.assert_allclose(weight, expected_weight, rtol=2e-6, atol=1e-6)
        if velocity is not None:
            np.testing.assert_allclose(velocity, expected_velocity, rtol=2e-6, atol=1e-6)
        np.testing.assert_array_equal(gradient, before)


def test_long_arrays_are_updated_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descent, "_PIECE", 2048)
    weight, gradient, velocity = arrays(5000)
    expected, _ = written_out(weight, velocity, gradient, STEP)
    assert descend(weight, velocity, gradient, STEP)
    np.testing.assert_allclose(weight, expected, rtol=2e-6, atol=1e-6)


def test_arrays_at_other_addresses_are_found() -> None:
    for _ in range(3):
        weight, gradient, velocity = arrays(3001)
        expected, _ = written_out(weight, velocity, gradient, STEP)
        assert descend(weight, velocity, gradient, STEP)
        np.testing.assert_allclose(weight, expected, rtol=2e-6, atol=1e-6)


def test_arrays_are_not_kept_alive() -> None:
    weight, gradient, velocity = arrays(2001)
    descend(weight, velocity, gradient, STEP)
    kept = weakref.ref(weight)
    del weight
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize(
    ("size", "dtype", "changes"),
    [
        (16, "float32", {}),
        (4096, "float64", {}),
        (4096, "float32", {"momentum": 1e-20}),
        (4096, "float32", {"decay": 1e-20}),
        (4096, "float32", {"clip": -1.0}),
    ],
)
def test_what_it_cannot_do_is_left_alone(size: int, dtype: str, changes: dict[str, float]) -> None:
    weight, gradient, velocity = (one.astype(dtype) for one in arrays(size))
    before = weight.copy()
    assert not descend(weight, velocity, gradient, dataclasses.replace(STEP, **changes))
    np.testing.assert_array_equal(weight, before)


def test_no_more_passes_are_kept_than_allowed() -> None:
    for size in range(1024, 1024 + 2 * descent._passes.most):
        weight, gradient, velocity = arrays(size)
        descend(weight, velocity, gradient, STEP)
    assert len(descent._passes.known) <= descent._passes.most


def test_sgd_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def counted(weight: np.ndarray, *others: object) -> bool:
        taken.append(weight.shape[0])
        return descend(weight, *others)

    monkeypatch.setattr("core.backends.numpy_.descend", counted)
    optimizer = mx.optimizer.SGD(learning_rate=0.05, momentum=0.9, rescale_grad=1 / 32)
    given, gradient, _ = arrays(2000)
    weight = mx.nd.array(given)
    state = optimizer.create_state(0, weight)
    optimizer.update(0, weight, mx.nd.array(gradient), state)
    expected, _ = written_out(given, np.zeros_like(given), gradient, STEP)
    np.testing.assert_allclose(weight.asnumpy(), expected, rtol=2e-6, atol=1e-6)
    assert taken == [2000]
