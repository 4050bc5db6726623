"""The rules of optimizers in float64, and arrays to apply them to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from core.kernels import optimizer_steps
from core.kernels.optimizer_steps import FusedStep, GradientTerms, UpdateRule

__all__ = ["CHANGES", "RULES", "TERMS", "Reference", "arrays", "reference_update", "short_name"]

TERMS = GradientTerms(rescale=1 / 32, clip=0.0, decay=0.0)

CHANGES: list[dict[str, Any]] = [
    *({}, {"decay": 1e-4}, {"clip": 0.01}, {"clip": 0.01, "decay": 0.1}, {"decay": 1e-20}),
    {"clip": 0.01, "decay": 0.1, "decays_first": True},
]
"""What steps change of ``TERMS``."""


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
    (optimizer_steps.SGD(0.05), 0, descent),
    (optimizer_steps.Momentum(0.05, 0.9), 1, momentum),
    (optimizer_steps.Momentum(0.0, 0.9), 1, momentum),
    (optimizer_steps.NAG(0.05, 0.9, 0.0), 1, nesterov),
    (optimizer_steps.NAG(0.05, 0.9, 0.1), 1, nesterov),
    (optimizer_steps.Signum(0.05, 0.75, 0.99), 1, signs),
    (optimizer_steps.Adam(0.01, 0.75, 0.875, 1e-3), 2, adam),
    (optimizer_steps.AdaGrad(0.05, 1e-3, 0.0), 1, adagrad),
    (optimizer_steps.AdaGrad(0.05, 1e-3, 0.1), 1, adagrad),
    (optimizer_steps.RMSProp(0.01, 0.875, 1e-3, 0.0), 1, root_mean_square),
    (optimizer_steps.RMSProp(0.01, 0.875, 1e-3, 0.5), 1, root_mean_square),
    (optimizer_steps.CenteredRMSProp(0.01, 0.875, 0.75, 1e-2, 0.0), 3, centered),
    (optimizer_steps.CenteredRMSProp(0.01, 0.875, 0.75, 1e-2, 0.5), 3, centered),
    (optimizer_steps.FTRL(0.1, 0.25, 1.0, 0.01), 2, leader),
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
