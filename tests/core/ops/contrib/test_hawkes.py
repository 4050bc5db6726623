"""Hawkes processes: what golden cases do not cover."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.errors import ShapeError
from oracle.apply import apply, make

OP = "_contrib_hawkesll"


def likelihood(alpha: float, lags: list[float], end: float) -> float:
    count = len(lags)
    arrays = [[[0.5]], [alpha], [2.0], [[0.0]], [lags or [0.0]], [[0] * (count or 1)]]
    arrays = [mx.nd.array(array) for array in (*arrays, [count], [end])]
    arrays[5] = arrays[5].astype("int32")
    return mx.nd.contrib.hawkesll(*arrays)[0].asscalar()


def test_without_excitation_it_is_a_poisson_process() -> None:
    assert likelihood(0.0, [1.0, 3.0], 10.0) == pytest.approx(2 * np.log(0.5) - 0.5 * 10)
    assert likelihood(0.7, [], 10.0) == pytest.approx(-0.5 * 10)


def test_excitation_makes_clustered_events_likelier() -> None:
    assert likelihood(0.5, [1.0, 0.1], 5.0) > likelihood(0.5, [1.0, 2.0], 5.0)


def test_gradients_are_derivatives() -> None:
    values = [
        np.float64([[0.5, 0.8]]),
        np.float64([0.4, 0.7]),
        np.float64([1.5, 0.6]),
        np.float64([[0.3, 0.0]]),
        np.float64([[0.5, 0.2, 0.9]]),
        np.int32([[0, 1, 0]]),
        np.float64([3]),
        np.float64([2.5]),
    ]

    def likelihood_of(changed: int, by: np.ndarray) -> float:
        moved = [x + by if place == changed else x for place, x in enumerate(values)]
        return float(apply(OP, {}, moved).outputs[0].sum())

    heads = [np.ones(1), np.zeros((1, 2))]
    grads = apply(OP, {}, values, heads).grads
    for place in range(3):
        for at in np.ndindex(*values[place].shape):
            step = np.zeros(values[place].shape)
            step[at] = 1e-6
            slope = (likelihood_of(place, step) - likelihood_of(place, -step)) / 2e-6
            assert grads[place][at] == pytest.approx(slope, rel=1e-5)


def test_shapes_are_checked() -> None:
    def infer(*shapes: tuple[int, ...] | None) -> None:
        make(OP, {}).infer_shape([*shapes, *[None] * (8 - len(shapes))], [None, None])

    with pytest.raises(ShapeError, match=r"lda has shape \(2,\); expected \(sequences, marks\)"):
        infer((2,))
    with pytest.raises(ShapeError, match=r"lags has shape \(3,\); expected \(sequences, events\)"):
        infer((2, 3), None, None, None, (3,))
    with pytest.raises(ShapeError, match=r"beta has shape \(4,\), expected \(3,\)"):
        infer((2, 3), None, (4,))
