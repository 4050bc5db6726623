"""What counts as equal to MXNet's result."""

from __future__ import annotations

import numpy as np
import pytest

from oracle.compare import assert_close


def both(shape: tuple[int, ...], dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    expected = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    return expected.copy(), expected


def test_a_wrong_channel_does_not_hide_behind_a_larger_one() -> None:
    got, expected = both((2, 3, 4, 4))
    got[:, 1] *= 1e6
    expected[:, 1] *= 1e6
    assert_close("x", got, expected)
    got[:, 2] *= np.float32(1.001)  # less than 1e-8 of the largest element
    with pytest.raises(AssertionError, match=r"of 96 differ by more than 1e-05 .* this one by"):
        assert_close("x", got, expected)


def test_elements_that_cancel_may_have_their_channels_rounding_error() -> None:
    got, expected = both((8, 3))
    expected[0, 0] = got[0, 0] = 0.0
    got[0, 0] = 5e-6 * np.sqrt(np.mean(expected[:, 0] ** 2))
    assert_close("x", got, expected)
    got[0, 0] *= 3
    with pytest.raises(AssertionError, match=r"at \(0, 0\)"):
        assert_close("x", got, expected)


def test_zeros_must_be_exact() -> None:
    got, expected = np.zeros((2, 3), "f"), np.zeros((2, 3), "f")
    assert_close("x", got, expected)
    got[1, 1] = 1e-30
    with pytest.raises(AssertionError):
        assert_close("x", got, expected)


def test_a_channel_of_zeros_does_not_hide_behind_the_others() -> None:
    got, expected = both((8, 3))
    got[:, 1] = expected[:, 1] = 0.0
    assert_close("x", got, expected)
    got[2, 1] = 1e-7
    with pytest.raises(AssertionError, match=r"at \(2, 1\), MXNet .*0\.0"):
        assert_close("x", got, expected)


def test_subnormal_numbers_may_have_become_zeros() -> None:
    got, expected = both((8, 3))
    got[:, 1] = expected[:, 1] = 0.0
    got[2, 1] = np.finfo("float32").smallest_normal / 2
    assert_close("x", got, expected)
    got[2, 1] *= 2
    with pytest.raises(AssertionError):
        assert_close("x", got, expected)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_must_match(value: float) -> None:
    got, expected = both((2, 3))
    got[0, 1] = expected[0, 1] = value
    assert_close("x", got, expected)
    got[0, 1] = 1.0
    with pytest.raises(AssertionError):
        assert_close("x", got, expected)
    with pytest.raises(AssertionError):
        assert_close("x", expected, got)


def test_integers_shapes_and_dtypes_must_match() -> None:
    expected = np.arange(6).reshape(2, 3)
    assert_close("x", expected.copy(), expected)
    for got in (expected + (expected == 1), expected.ravel(), expected.astype("int32")):
        with pytest.raises(AssertionError, match="MXNet"):
            assert_close("x", got, expected)
