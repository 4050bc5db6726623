"""``mx.sym.random``: operators and attributes as in MXNet 1.9.1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import core as mx


@pytest.fixture(autouse=True)
def _names_from_zero() -> Any:
    with mx.name.NameManager():
        yield


random = mx.sym.random


@pytest.mark.parametrize(
    ("make", "operator", "attrs", "arguments"),
    [
        (
            lambda v, w: random.uniform(0, 1, (2, 3)),
            "_random_uniform",
            {"shape": "(2, 3)", "high": "1", "low": "0"},
            [],
        ),
        (
            lambda v, w: random.uniform(-1, 2.5, shape=4, dtype="float64"),
            "_random_uniform",
            {"dtype": "float64", "shape": "4", "high": "2.5", "low": "-1"},
            [],
        ),
        (lambda v, w: random.uniform(v, w, shape=2), "_sample_uniform", {"shape": "2"}, ["v", "w"]),
        (
            lambda v, w: random.normal(loc=1, shape=(2,), ctx="cpu(0)"),
            "_random_normal",
            {"ctx": "cpu(0)", "shape": "(2,)", "scale": "1", "loc": "1"},
            [],
        ),
        (
            lambda v, w: random.randn(2, 3, loc=1),
            "_random_normal",
            {"shape": "(2, 3)", "scale": "1", "loc": "1"},
            [],
        ),
        (lambda v, w: random.poisson(4, 2), "_random_poisson", {"shape": "2", "lam": "4"}, []),
        (
            lambda v, w: random.exponential(4, 2),
            "_random_exponential",
            {"shape": "2", "lam": "0.25"},
            [],
        ),
        (lambda v, w: random.exponential(v, 2), "_sample_exponential", {"shape": "2"}, ["v"]),
        (
            lambda v, w: random.gamma(1, 2, 2),
            "_random_gamma",
            {"shape": "2", "beta": "2", "alpha": "1"},
            [],
        ),
        (
            lambda v, w: random.negative_binomial(3, 0.5, 2),
            "_random_negative_binomial",
            {"shape": "2", "p": "0.5", "k": "3"},
            [],
        ),
        (
            lambda v, w: random.generalized_negative_binomial(3, 0.5, 2),
            "_random_generalized_negative_binomial",
            {"shape": "2", "alpha": "0.5", "mu": "3"},
            [],
        ),
        (
            lambda v, w: random.multinomial(v),
            "_sample_multinomial",
            {"dtype": "int32", "get_prob": "True"},
            ["v"],
        ),
        (lambda v, w: random.shuffle(v), "_shuffle", {}, ["v"]),
        (
            lambda v, w: random.randint(1, 5, 2, dtype="int64"),
            "_random_randint",
            {"dtype": "int64", "shape": "2", "high": "5", "low": "1"},
            [],
        ),
    ],
)
def test_operator_and_attributes(
    make: Callable[..., Any], operator: str, attrs: dict[str, str], arguments: list[str]
) -> None:
    symbol = make(mx.sym.var("v"), mx.sym.var("w"))
    assert symbol.attr("op_name") == operator
    assert symbol.name == f"{operator}0"
    assert symbol.list_attr() == attrs
    assert symbol.list_arguments() == arguments


def test_rate_is_the_reciprocal_of_the_scale() -> None:
    symbol = random.exponential(mx.sym.var("v"))
    assert symbol.get_children().attr("op_name") == "_rdiv_scalar"


def test_symbols_as_parameters_are_inputs_of_the_sampling_operator() -> None:
    """MXNet's test_random samples a normal distribution for each element of two symbols."""
    drawn = random.normal(mx.sym.var("a"), scale=mx.sym.var("b"), shape=(3,))
    assert drawn.list_arguments() == ["a", "b"]
    exe = drawn.bind(mx.cpu(), [mx.nd.array([-100, 100]), mx.nd.array([0.1, 0.1])])
    assert (np.sign(exe.forward()[0].asnumpy()) == [[-1] * 3, [1] * 3]).all()


def test_zipfian_candidates_and_their_expected_counts() -> None:
    """P(class) = log((class + 2) / (class + 1)) / log(range_max + 1)."""
    out = mx.sym.Group(mx.sym.contrib.rand_zipfian(mx.sym.var("true"), 50, 20))
    drawn, of_true, of_drawn = out.bind(mx.cpu(), [mx.nd.array([0, 19])]).forward()
    assert drawn.dtype == np.int64
    assert ((drawn.asnumpy() >= 0) & (drawn.asnumpy() < 20)).all()
    counts = 50 * np.log((np.arange(20) + 2) / (np.arange(20) + 1)) / np.log(21)
    np.testing.assert_allclose(of_true.asnumpy(), counts[[0, 19]], rtol=1e-12)
    np.testing.assert_allclose(of_drawn.asnumpy(), counts[drawn.asnumpy()], rtol=1e-12)


def test_parameters_must_be_all_numbers_or_all_symbols() -> None:
    with pytest.raises(TypeError, match=r"uniform: parameters must be all numbers or all symbols"):
        random.uniform(mx.sym.var("v"), 1)
