"""Random operators: distributions, seeds, shapes and gradients."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import core as mx
from core.errors import AttributeValueError, MXNetError, ShapeError
from oracle.apply import apply, make

COUNT = 40000

# Mean and variance by the definition of each distribution, with MXNet's parameters.
MOMENTS = [
    ("uniform", {"low": 1, "high": 3}, 2.0, 1 / 3),
    ("normal", {"loc": 2, "scale": 3}, 2.0, 9.0),
    ("gamma", {"alpha": 2, "beta": 3}, 6.0, 18.0),
    ("exponential", {"lam": 4}, 0.25, 0.0625),
    ("poisson", {"lam": 4}, 4.0, 4.0),
    ("negative_binomial", {"k": 3, "p": 0.4}, 4.5, 11.25),
    ("generalized_negative_binomial", {"mu": 2, "alpha": 0.3}, 2.0, 3.2),
]


def assert_moments(values: np.ndarray, mean: float, variance: float) -> None:
    deviation = np.sqrt(variance)
    assert values.mean() == pytest.approx(mean, abs=6 * deviation / np.sqrt(values.size))
    assert values.var() == pytest.approx(variance, rel=0.08)


@pytest.mark.parametrize(("name", "attrs", "mean", "variance"), MOMENTS)
def test_moments_match_the_distributions(name: str, attrs, mean: float, variance: float) -> None:
    drawn = apply(f"_random_{name}", {**attrs, "shape": (COUNT,)}, []).outputs[0]
    assert drawn.dtype == np.float32
    assert_moments(drawn, mean, variance)
    like = apply(f"_random_{name}_like", attrs, [np.zeros((COUNT // 4, 4))]).outputs[0]
    assert like.dtype == np.float64
    assert_moments(like, mean, variance)


@pytest.mark.parametrize(("name", "attrs", "mean", "variance"), MOMENTS)
def test_moments_with_arrays_as_parameters(name: str, attrs, mean: float, variance: float) -> None:
    parameters = [np.full((2, 1), value, "float32") for value in attrs.values()]
    drawn = apply(f"_sample_{name}", {"shape": (COUNT // 2,)}, parameters).outputs[0]
    assert drawn.shape == (2, 1, COUNT // 2)
    assert_moments(drawn, mean, variance)


def test_each_element_has_its_own_parameters() -> None:
    mu, sigma = np.float32([0, 100]), np.float32([1, 0])
    drawn = apply("_sample_normal", {"shape": (50,)}, [mu, sigma]).outputs[0]
    assert np.abs(drawn[0]).max() < 10
    np.testing.assert_array_equal(drawn[1], 100)


def test_the_same_seed_gives_the_same_numbers() -> None:
    draws = [apply("_random_normal", {"shape": (5,)}, [], seed=s).outputs[0] for s in (1, 1, 2)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()


def test_integers_stay_within_their_range() -> None:
    drawn = apply("_random_randint", {"low": -2, "high": 3, "shape": (1000,)}, []).outputs[0]
    assert drawn.dtype == np.int32
    assert set(drawn.tolist()) == {-2, -1, 0, 1, 2}
    with pytest.raises(AttributeValueError, match="empty range"):
        make("_random_randint", {"low": 3, "high": 3})


def test_parameters_are_checked() -> None:
    with pytest.raises(AttributeValueError, match=r"'scale' is -1\.0; its minimum is 0"):
        make("_random_normal", {"scale": -1})
    with pytest.raises(MXNetError, match="poisson distribution: lam < 0"):
        apply("_sample_poisson", {}, [np.float32([-1.0])])
    with pytest.raises(ShapeError, match=r"sigma has shape \(3,\), expected \(4, 5\)"):
        make("_sample_normal", {}).infer_shape([(4, 5), (3,)], [None])


def test_unknown_dimensions_are_inferred() -> None:
    operator = make("_random_normal", {"shape": (0, 3)})
    assert operator.infer_shape([], [(2, 3)])[1] == [(2, 3)]
    assert make("_random_normal", {}).infer_shape([], [None])[1] == [None]


def test_draws_are_float32_by_default() -> None:
    f32, f64 = np.dtype("float32"), np.dtype("float64")
    assert make("_random_normal", {"dtype": "None"}).infer_type([], [None])[1] == [f32]
    got = make("_sample_normal", {}).infer_type([f64, None], [None])
    assert got == ([f64, f64], [f32])


def test_draws_have_no_gradient() -> None:
    assert make("_sample_normal", {}).gradient_inputs(2) == ()
    assert not make("_shuffle", {}).has_backward()


def test_unique_zipfian_classes() -> None:
    classes, draws = apply(
        "_sample_unique_zipfian", {"range_max": 500, "shape": (3, 200)}, []
    ).outputs
    assert classes.dtype == draws.dtype == np.int64
    for row, count in zip(classes, draws, strict=True):
        assert len(set(row)) == 200
        assert 0 <= row.min() <= row.max() < 500
        assert 200 < count < 1500
    # Class 0 is likeliest, with probability log(2) / log(501), so it comes early.
    assert (classes == 0).any(axis=1).all()
    np.testing.assert_array_less(np.nonzero(classes == 0)[1], 60)


def test_unique_zipfian_needs_enough_classes() -> None:
    with pytest.raises(ShapeError, match=r"with at most range_max \(3\) classes"):
        apply("_sample_unique_zipfian", {"range_max": 3, "shape": (1, 4)}, [])


def test_shuffle_moves_rows() -> None:
    data = np.arange(60, dtype="float32").reshape(20, 3)
    drawn = apply("_shuffle", {}, [data]).outputs[0]
    assert (drawn != data).any()
    np.testing.assert_array_equal(drawn[np.argsort(drawn[:, 0])], data)


def test_shuffle_gives_every_order_equally_often() -> None:
    """Chi-squared: 23 degrees of freedom are beyond 50 once in a thousand times."""
    mx.random.seed(11)
    data, times = mx.nd.arange(4), 24 * 200
    drawn = [tuple(mx.nd.shuffle(data).asnumpy().astype(int).tolist()) for _ in range(times)]
    counts = [drawn.count(order) for order in itertools.permutations(range(4))]
    assert sum((count - 200) ** 2 / 200 for count in counts) < 50
    wide = np.stack([mx.nd.shuffle(mx.nd.arange(500)).asnumpy() for _ in range(400)])
    # Means of 400 places, whose deviation is 144 / 20.
    np.testing.assert_allclose(wide.mean(axis=0), 249.5, atol=5 * 7.3)
    assert abs(np.mean(wide[:, 1:] > wide[:, :-1]) - 0.5) < 0.01


def test_a_seed_gives_vectors_and_rows_the_same_order() -> None:
    rows = mx.nd.arange(100).reshape((50, 2))
    mx.random.seed(4)
    vector = mx.nd.shuffle(rows[:, 0]).asnumpy()
    mx.random.seed(4)
    np.testing.assert_array_equal(mx.nd.shuffle(rows).asnumpy()[:, 0], vector)


def test_multinomial_follows_its_probabilities() -> None:
    chances = np.float32([[0.2, 0.3, 0.5], [1, 0, 0]])
    drawn = apply("_sample_multinomial", {"shape": (COUNT,)}, [chances]).outputs[0]
    assert drawn.dtype == np.int32
    shares = np.bincount(drawn[0], minlength=3) / COUNT
    np.testing.assert_allclose(shares, chances[0], atol=0.015)
    np.testing.assert_array_equal(drawn[1], 0)


def test_multinomial_returns_log_probabilities_with_their_gradient() -> None:
    chances = np.float32([0.2, 0.3, 0.5])
    heads = [np.zeros(6, "int32"), np.float32([1, 2, 3, 4, 5, 6])]
    got = apply("_sample_multinomial", {"shape": (6,), "get_prob": True}, [chances], heads)
    indices, logs = got.outputs
    np.testing.assert_allclose(logs, np.log(chances[indices]), rtol=1e-6)
    expected = np.zeros(3)
    np.add.at(expected, indices, heads[1] / chances[indices])
    np.testing.assert_allclose(got.grads[0], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("attrs", "data", "expected"),
    [({}, (4,), (1,)), ({"shape": 3}, (4,), (3,)), ({"shape": (3, 2)}, (5, 4), (5, 3, 2))],
)
def test_inferred_shapes_of_multinomial(attrs, data, expected) -> None:
    assert make("_sample_multinomial", attrs).infer_shape([data], [None])[1] == [expected]


@pytest.mark.parametrize(("dtype", "classes"), [("uint8", 255), ("float16", 2048)])
def test_multinomial_needs_a_dtype_that_holds_its_classes(dtype: str, classes: int) -> None:
    """As in MXNet, which would otherwise give wrong classes."""
    operator = make("_sample_multinomial", {"dtype": dtype})
    assert operator.infer_shape([(classes,)], [None])[1] == [(1,)]
    with pytest.raises(ShapeError, match=f"{classes + 1} classes, but {dtype} holds .* {classes}"):
        operator.infer_shape([(classes + 1,)], [None])
