"""Initializers against MXNet 1.9.1: exact values, naming rules, statistics and JSON."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from oracle import golden_file
from oracle.topics.initializers import (
    DISPATCH,
    DUMPS,
    EXACT,
    LEGACY,
    ORTHOGONAL,
    STATISTICS,
    gram,
    statistics,
)


def _golden(key: str) -> np.ndarray:
    return golden_file.topic("initializers")[key]


@pytest.mark.parametrize("key", EXACT)
def test_deterministic_values_match_mxnets(key: str) -> None:
    np.testing.assert_allclose(EXACT[key].run(mx), _golden(f"exact/{key}"), rtol=1e-7)


@pytest.mark.parametrize("key", DISPATCH)
def test_initializers_chosen_by_name(key: str) -> None:
    np.testing.assert_array_equal(DISPATCH[key].run(mx), _golden(f"dispatch/{key}"))


@pytest.mark.parametrize("key", LEGACY)
def test_initializers_chosen_by_a_plain_string(key: str) -> None:
    with pytest.warns(DeprecationWarning, match="InitDesc"):
        got = LEGACY[key].run(mx)
    np.testing.assert_array_equal(got, _golden(f"legacy/{key}"))


@pytest.mark.parametrize("key", STATISTICS)
def test_statistics_match_mxnets(key: str) -> None:
    mx.random.seed(3)
    array = STATISTICS[key].run(mx)
    mean, deviation, largest = statistics(array)
    _, expected_deviation, expected_largest = _golden(f"statistics/{key}")
    # Two samples of some 50,000: deviations agree to 2 %, means to 5 standard errors.
    assert deviation == pytest.approx(expected_deviation, rel=0.02)
    assert abs(mean) < 5 * expected_deviation / np.sqrt(array.size)
    # A uniform sample reaches its bound; the largest of normal samples varies.
    is_uniform = expected_largest < 2 * expected_deviation
    assert largest == pytest.approx(expected_largest, rel=1e-3 if is_uniform else 0.35)


@pytest.mark.parametrize("key", ORTHOGONAL)
def test_rows_are_orthogonal(key: str) -> None:
    np.testing.assert_allclose(
        gram(ORTHOGONAL[key].run(mx)), _golden(f"orthogonal/{key}"), atol=1e-5
    )


@pytest.mark.parametrize("key", DUMPS)
def test_dumps_match_mxnets(key: str) -> None:
    assert DUMPS[key](mx).dumps() == str(_golden(f"dumps/{key}"))


@pytest.mark.parametrize("name", ["data", "fc_moving_mean", "fc_state"])
def test_an_unrecognized_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        mx.init.One()(mx.init.InitDesc(name), mx.nd.zeros((2, 2)))
