from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.random import DeviceRandom, device_random


@pytest.fixture(autouse=True)
def _keep_the_position():
    position = mx.random.get_state()
    yield
    mx.random.set_state(position)


def draw(context: mx.Context) -> list[float]:
    numbers = np.empty(2)
    device_random(context).uniform(numbers)
    return numbers.tolist()


def test_the_generator_is_philox_keyed_by_the_seed():
    random = DeviceRandom(mx.cpu(3), 17)
    numbers = np.empty(4)
    random.uniform(numbers)
    expected = np.random.Generator(np.random.Philox(key=17 + (((1 << 32) | 3) << 64))).random(4)
    assert numbers.tolist() == expected.tolist()


@pytest.mark.parametrize("seed", [-1, 2**63, 2**64 - 1])
def test_large_and_negative_seeds_keep_all_their_bits(seed: int):
    def first(value: int) -> float:
        numbers = np.empty(1)
        DeviceRandom(mx.cpu(0), value).uniform(numbers)
        return float(numbers[0])

    assert first(seed) == first(seed % 2**64)
    assert first(seed) != first(seed - 1)


def test_restoring_the_state_restores_every_device():
    mx.random.seed(5)
    draw(mx.cpu(0))
    position = mx.random.get_state()
    new = mx.cpu(77)
    expected = draw(mx.cpu(0)), draw(new)
    draw(new)
    mx.random.set_state(position)
    assert (draw(mx.cpu(0)), draw(new)) == expected


@pytest.mark.parametrize("probability", [0.0, 0.25, 0.3, 0.999, 1.0])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_bernoulli_draws_have_the_given_probability(probability: float, dtype: str):
    out = np.full((50, 2001), np.nan, dtype)
    DeviceRandom(mx.cpu(0), 11).bernoulli(out, probability, 2.5)
    assert set(np.unique(out)) <= {0, 2.5}
    # Four standard deviations.
    spread = 4 * np.sqrt(probability * (1 - probability) / out.size)
    assert abs(np.mean(out > 0) - probability) <= spread


def test_probabilities_that_eight_bits_cannot_express():
    out = np.empty(1_000_000, np.float32)
    DeviceRandom(mx.cpu(0), 12).bernoulli(out, 1 / 1024)
    assert abs(out.mean() * 1024 - 1) < 0.13


def test_bernoulli_draws_repeat_from_a_state_and_for_strided_arrays():
    random, whole = DeviceRandom(mx.cpu(0), 13), np.empty((4, 6), np.float32)
    position = random.get_state()
    random.bernoulli(whole, 0.4)
    random.set_state(position)
    strided = np.empty((6, 4), np.float32).T
    random.bernoulli(strided, 0.4)
    np.testing.assert_array_equal(whole, strided)
