"""Straight-through estimators: results that differ from a plain formula's."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx

BELOW_HALF = np.nextafter(np.float32(0.5), np.float32(0))
ODD = 2.0**23 + 1
"""A float32 to which nothing smaller than 1 can be added without rounding."""


@pytest.mark.parametrize("sign", [1, -1])
def test_rounding_is_exact(sign: int) -> None:
    numbers = sign * np.array([BELOW_HALF, 0.5, 2.5, ODD, np.inf], dtype="float32")
    rounded = mx.nd.contrib.round_ste(mx.nd.array(numbers)).asnumpy()
    np.testing.assert_array_equal(rounded, sign * np.array([0, 1, 3, ODD, np.inf], "float32"))


def test_the_sign_of_nan_is_0_as_in_mxnet() -> None:
    numbers = mx.nd.array([np.nan, -2.0, 0.0])
    np.testing.assert_array_equal(mx.nd.contrib.sign_ste(numbers).asnumpy(), [0, -1, 0])
