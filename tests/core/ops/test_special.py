"""Special functions against the standard library's."""

from __future__ import annotations

import math

import numpy as np
import pytest

from oracle.apply import apply

POINTS = np.concatenate([np.linspace(-6.3, 30.0, 301), [1e-12, 0.46875, 100.5]])


@pytest.mark.parametrize(
    ("op", "expected"), [("erf", math.erf), ("gamma", math.gamma), ("gammaln", math.lgamma)]
)
def test_double_precision(op: str, expected) -> None:
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
