"""``mx.optimizer`` and the update operators give the same results: each rule exists once."""

from __future__ import annotations

import math

import numpy as np
import pytest

import core as mx

RATES = {"rescale_grad": 0.5, "wd": 0.01}
CLIPPED = {**RATES, "clip_gradient": 0.8}

# (optimizer, its options, operator, its attributes, how many states)
ALIKE = [
    ("sgd", {}, "sgd_update", {}, 0),
    ("sgd", {"momentum": 0.9}, "sgd_mom_update", {"momentum": 0.9}, 1),
    ("nag", {"momentum": 0.9}, "nag_mom_update", {"momentum": 0.9}, 1),
    ("signum", {"momentum": 0.0}, "signsgd_update", {}, 0),
    (
        "signum",
        {"momentum": 0.9, "wd_lh": 0.1},
        "signum_update",
        {"momentum": 0.9, "wd_lh": 0.1},
        1,
    ),
    ("rmsprop", {"gamma1": 0.9}, "rmsprop_update", {"gamma1": 0.9}, 1),
    (
        "rmsprop",
        {"centered": True, "gamma1": 0.9, "gamma2": 0.8, "clip_weights": 0.7},
        "rmspropalex_update",
        {"gamma1": 0.9, "gamma2": 0.8, "clip_weights": 0.7},
        3,
    ),
    ("ftrl", {"lamda1": 0.02}, "ftrl_update", {"lamda1": 0.02}, 2),
    ("adam", {}, "adam_update", {}, 2),
    ("ftml", {}, "ftml_update", {"t": 1}, 3),
]


def arrays(count: int) -> list[mx.nd.NDArray]:
    random = np.random.RandomState(count)
    return [mx.nd.array(random.randn(3, 5)) for _ in range(count)]


@pytest.mark.parametrize(
    ("name", "options", "operator", "attributes", "states"), ALIKE, ids=[row[2] for row in ALIKE]
)
def test_an_optimizer_matches_its_operator(
    name: str,
    options: dict[str, float],
    operator: str,
    attributes: dict[str, float],
    states: int,
) -> None:
    weight, grad = arrays(2)
    by_operator, *kept = [weight.copy(), *(mx.nd.zeros((3, 5)) for _ in range(states))]
    rate = 0.1
    if name == "adam":
        rate *= math.sqrt(1 - 0.999) / (1 - 0.9)
    clip = {"clip_grad": 0.8} if name == "ftml" else {"clip_gradient": 0.8}
    function = getattr(mx.nd, operator)
    function(by_operator, grad, *kept, out=by_operator, lr=rate, **RATES, **clip, **attributes)
    update = mx.optimizer.get_updater(
        mx.optimizer.create(name, learning_rate=0.1, **CLIPPED, **options)
    )
    before = weight.copy()
    update(0, grad, weight)
    np.testing.assert_array_equal(weight.asnumpy(), by_operator.asnumpy())
    assert (weight.asnumpy() != before.asnumpy()).any()


def test_lamb_matches_its_two_phases() -> None:
    weight, grad = arrays(2)
    mean, variance = mx.nd.zeros((3, 5)), mx.nd.zeros((3, 5))
    direction = mx.nd.lamb_update_phase1(weight, grad, mean, variance, t=1, **CLIPPED)
    expected = mx.nd.lamb_update_phase2(
        weight, direction, weight.norm().reshape((1,)), direction.norm().reshape((1,)), lr=0.1
    )
    update = mx.optimizer.get_updater(mx.optimizer.create("lamb", learning_rate=0.1, **CLIPPED))
    update(0, grad, weight)
    np.testing.assert_allclose(weight.asnumpy(), expected.asnumpy(), rtol=1e-6)


def test_group_adagrad_matches_its_operator() -> None:
    weight, grad = arrays(2)
    by_operator, history = weight.copy(), mx.nd.zeros((3, 1))
    mx.nd.contrib.group_adagrad_update(by_operator, grad, history, out=by_operator, lr=0.1)
    update = mx.optimizer.get_updater(mx.optimizer.create("groupadagrad", learning_rate=0.1))
    update(0, grad, weight)
    np.testing.assert_array_equal(weight.asnumpy(), by_operator.asnumpy())
