"""Random arrays: shapes, dtypes, moments and repeatability."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import core as mx
from core import nd
from core.errors import MXNetError, ShapeError
from core.ndarray import NDArray, random

COUNT = 40_000

# Name, parameters, mean and variance of the distribution.
DISTRIBUTIONS: list[tuple[str, tuple[float, ...], float, float]] = [
    ("uniform", (-1, 3), 1, 16 / 12),
    ("normal", (2, 3), 2, 9),
    ("poisson", (4,), 4, 4),
    ("exponential", (2,), 2, 4),
    ("gamma", (3, 2), 6, 12),
    ("negative_binomial", (5, 0.4), 5 * 0.6 / 0.4, 5 * 0.6 / 0.16),
    ("generalized_negative_binomial", (3, 0.5), 3, 3 + 0.5 * 9),
    ("generalized_negative_binomial", (3, 0), 3, 3),
]


@pytest.fixture(autouse=True)
def seeded() -> None:
    random.seed(7)


@pytest.mark.parametrize(("name", "numbers", "mean", "variance"), DISTRIBUTIONS)
def test_moments_of_distributions(
    name: str, numbers: tuple[float, ...], mean: float, variance: float
) -> None:
    draw: Callable[..., NDArray] = getattr(nd.random, name)
    alike = draw(*numbers, shape=(COUNT,)).asnumpy()
    each = draw(*(nd.array([number, number]) for number in numbers), shape=(COUNT // 2,))
    assert each.shape == (2, COUNT // 2)
    for values in (alike, each.asnumpy().ravel()):
        error = 5 * np.sqrt(variance / COUNT)
        assert values.mean() == pytest.approx(mean, abs=error)
        assert values.var() == pytest.approx(variance, rel=0.1)


@pytest.mark.parametrize("name", sorted({row[0] for row in DISTRIBUTIONS}))
def test_the_same_seed_gives_the_same_numbers(name: str) -> None:
    draw = getattr(nd.random, name)
    random.seed(3)
    first, second = draw(shape=(20,)).asnumpy(), draw(shape=(20,)).asnumpy()
    random.seed(3)
    assert np.array_equal(draw(shape=(20,)).asnumpy(), first)
    if name != "negative_binomial":  # its default parameters leave nothing random
        assert not np.array_equal(first, second)


def test_generator_state_can_be_saved_and_restored() -> None:
    state = random.get_state()
    first = nd.random.uniform(shape=(5,)).asnumpy()
    random.set_state(state)
    assert np.array_equal(nd.random.uniform(shape=(5,)).asnumpy(), first)


def test_shapes_and_dtypes_are_those_asked_for() -> None:
    assert nd.random.uniform().shape == (1,)
    assert nd.random.uniform(shape=3).shape == (3,)
    assert nd.random.uniform(0, 1, (2, 3), "float64").dtype is np.float64
    assert nd.random.normal(0, 1, (2, 3), "float16").dtype is np.float16
    assert nd.random.randn(2, 3).shape == (2, 3)
    assert nd.random.randn(2, loc=100, scale=0.1).asnumpy().min() > 90
    assert nd.random.uniform(nd.zeros((2, 2)), nd.ones((2, 2))).shape == (2, 2)
    assert nd.random.uniform(shape=2, ctx=mx.cpu(1)).context == mx.cpu(1)


def test_numbers_are_written_to_out() -> None:
    out = nd.zeros((2, 3))
    assert nd.random.uniform(5, 6, out=out) is out
    assert (out.asnumpy() >= 5).all()
    with pytest.raises(ShapeError, match="out"):
        nd.random.uniform(shape=(3,), out=out)


def test_uniform_stays_below_high() -> None:
    values = nd.random.uniform(0, 1, shape=(COUNT,)).asnumpy()
    assert values.min() >= 0
    assert values.max() < 1


def test_randint_draws_integers_below_high() -> None:
    values = nd.random.randint(-2, 3, shape=(1000,))
    assert values.dtype is np.int32
    assert set(values.asnumpy().tolist()) == {-2, -1, 0, 1, 2}
    assert nd.random.randint(0, 10**12, shape=2, dtype="int64").dtype is np.int64
    with pytest.raises(MXNetError, match="float32"):
        nd.random.randint(0, 2, dtype="float32")
    with pytest.raises(ValueError, match="NDArray"):
        nd.random.randint(nd.zeros(1), nd.ones(1))


def test_multinomial_draws_by_probability() -> None:
    data = nd.array([[0, 0.25, 0.75], [1, 0, 0]])
    drawn = nd.random.multinomial(data, shape=2000)
    assert (drawn.shape, drawn.dtype) == ((2, 2000), np.int32)
    counts = np.bincount(drawn.asnumpy()[0], minlength=3) / 2000
    assert counts == pytest.approx([0, 0.25, 0.75], abs=0.05)
    assert not drawn.asnumpy()[1].any()
    drawn, logarithms = nd.random.multinomial(data, get_prob=True, dtype="int64")
    assert drawn.dtype is np.int64
    chosen = data.asnumpy()[[0, 1], drawn.asnumpy()]
    assert logarithms.asnumpy() == pytest.approx(np.log(chosen))
    assert nd.random.multinomial(nd.array([0, 1])).asnumpy().tolist() == [1]


def test_multinomial_with_probabilities_below_one_in_total() -> None:
    drawn = nd.random.multinomial(nd.array([0.2, 0.2]), shape=500)
    assert set(drawn.asnumpy().tolist()) == {0, 1}


def test_shuffle_permutes_rows() -> None:
    x = nd.arange(300).reshape((100, 3))
    shuffled = nd.random.shuffle(x)
    assert not np.array_equal(shuffled.asnumpy(), x.asnumpy())
    ordered = shuffled.asnumpy()[shuffled.asnumpy()[:, 0].argsort()]
    assert np.array_equal(ordered, x.asnumpy())
    assert nd.random.shuffle(x, out=x) is x
    assert not np.array_equal(x.asnumpy(), ordered)


@pytest.mark.parametrize(
    "call",
    [
        lambda: nd.random.uniform(nd.zeros(2), 1),
        lambda: nd.random.normal("a", 1),
        lambda: nd.random.gamma(None),
    ],
)
def test_parameters_of_the_wrong_type_are_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="Distribution parameters"):
        call()
