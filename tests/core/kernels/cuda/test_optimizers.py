"""The one-pass kernels of optimizers, run on the host, against float64 implementations."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from core.kernels import optimizer_steps
from core.kernels.cuda.optimizers import update
from core.kernels.optimizer_steps import FusedStep, UpdateRule

from ...backends.optimizer_rules import (
    CHANGES,
    RULES,
    TERMS,
    Reference,
    arrays,
    reference_update,
    short_name,
)
from .host_modules import is_available, on_host

pytestmark = pytest.mark.skipif(not is_available(), reason="needs g++ on x86-64")


@pytest.fixture(autouse=True)
def _on_host() -> Iterator[None]:
    with on_host():
        yield


@pytest.mark.parametrize("start", [7, 8], ids=["odd", "aligned"])
@pytest.mark.parametrize("changes", CHANGES, ids=lambda changes: "-".join(changes) or "plain")
@pytest.mark.parametrize(("rule", "count", "formula"), RULES, ids=short_name)
def test_matches_the_float64_reference(
    rule: UpdateRule, count: int, formula: Reference, changes: dict[str, Any], start: int
) -> None:
    step = FusedStep(dataclasses.replace(TERMS, **changes), rule)
    size = 1501
    # The arrays lie inside larger ones, whose other elements must not change.
    whole = arrays(size + 20, count)
    before = [one.copy() for one in whole]
    given = [one[start : start + size] for one in whole]
    expected = reference_update(given, step, formula)
    assert update(given[0], given[1], given[2:], step)
    for got, value in zip([given[0], *given[2:]], expected, strict=True):
        np.testing.assert_allclose(got, value, rtol=3e-6, atol=2e-6)
    for now, then in zip(whole, before, strict=True):
        now[start : start + size] = then[start : start + size]
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize(("rule", "count", "formula"), RULES, ids=short_name)
def test_clipping_keeps_nan(rule: UpdateRule, count: int, formula: Reference) -> None:
    given = arrays(20, count)
    given[1][:3] = np.nan, np.inf, -np.inf
    step = FusedStep(dataclasses.replace(TERMS, clip=0.5), rule)
    expected = reference_update(given, step, formula)
    assert update(given[0], given[1], given[2:], step)
    assert np.isnan(given[0][0])
    for got, value in zip([given[0], *given[2:]], expected, strict=True):
        np.testing.assert_allclose(got, value, rtol=3e-6, atol=2e-6)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_unsupported_arrays_are_left_untouched(which: int) -> None:
    step = FusedStep(TERMS, optimizer_steps.Momentum(0.05, 0.9))
    for change in (lambda one: one.astype("float64"), lambda one: np.repeat(one, 2)[::2]):
        given = arrays(64, 1)
        given[which] = change(given[which])
        before = [one.copy() for one in given]
        assert not update(given[0], given[1], given[2:], step)
        for now, then in zip(given, before, strict=True):
            np.testing.assert_array_equal(now, then)
