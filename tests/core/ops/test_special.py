"""Special functions against Python's ``math``."""

from __future__ import annotations

import math

import numpy as np
import pytest

from oracle.apply import apply

POINTS = np.concatenate([np.linspace(-6.3, 30.0, 301), [1e-12, 0.46875, 100.5]])


@pytest.mark.parametrize(
    ("op", "expected"), [("erf", math.erf), ("gamma", math.gamma), ("gammaln", math.lgamma)]
)
def test_float64_matches_math(op: str, expected) -> None:
    got = apply(op, {}, [POINTS]).outputs[0]
    wanted = np.array([expected(x) for x in POINTS])
    np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-15)


def test_inverse_error_function_inverts() -> None:
    points = np.linspace(-0.999999, 0.999999, 201)
    inverse = apply("erfinv", {}, [points]).outputs[0]
    np.testing.assert_allclose([math.erf(x) for x in inverse], points, rtol=1e-14, atol=1e-16)


def test_half_precision_is_rounded_once() -> None:
    points = np.linspace(-3, 3, 61).astype("float16")
    got = apply("erf", {}, [points]).outputs[0]
    wanted = np.array([math.erf(x) for x in points.astype("float64")])
    np.testing.assert_allclose(got, wanted, rtol=6e-4, atol=1e-7)


def _slope(op: str, points: np.ndarray) -> np.ndarray:
    ones = np.ones(points.shape, points.dtype)
    return apply(op, {}, [points], [ones]).grads[0]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_poles_and_limits_match_mxnets(dtype: str) -> None:
    """Values from MXNet 1.9.1; at its poles, digamma gives the largest number."""
    inf, nan = math.inf, math.nan
    top = np.finfo("float64").max if dtype == "float64" else inf
    points = np.array([0.0, -0.0, -1.0, -2.0, inf, -inf, nan], dtype)
    rows = {
        "gamma": ([inf, -inf, nan, nan, inf, nan, nan], [inf, -inf, nan, nan, inf, nan, nan]),
        "gammaln": ([inf, inf, inf, inf, inf, inf, nan], [top, top, top, top, inf, top, nan]),
    }
    with np.errstate(all="ignore"):
        for op, (values, slopes) in rows.items():
            np.testing.assert_array_equal(apply(op, {}, [points]).outputs[0], values, op)
            np.testing.assert_array_equal(_slope(op, points), slopes, op)


@pytest.mark.parametrize("op", ["erfinv", "round"])
def test_the_sign_of_zero_is_kept(op: str) -> None:
    got = apply(op, {}, [np.float32([0.0, -0.0])]).outputs[0]
    assert np.signbit(got).tolist() == [False, True]


def test_the_logarithm_of_one_is_zero() -> None:
    got = apply("gammaln", {}, [np.float32([1, 2])]).outputs[0]
    np.testing.assert_array_equal(got, [0, 0])
    assert not np.signbit(got).any()
