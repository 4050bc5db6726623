"""Statistics of arrays whose values are extremely far apart or close together."""

from __future__ import annotations

import math

import numpy as np
import pytest

from app.executor.modules.param_figures import figures_of, relative_change, span_of


@pytest.mark.parametrize(
    "values",
    [
        [1.0, np.nextafter(1.0, 2.0)],
        [1e17, 1e17],
        [-1.7e308, 1.7e308],
        [5e-324, 1e-323],
        [0.5, 0.5],
    ],
    ids=["close", "constant", "far", "tiny", "small constant"],
)
def test_every_element_is_counted(values: list[float]) -> None:
    array = np.array(values)
    with np.errstate(all="ignore"):
        figures = figures_of(array, 8, span_of(array))
    histogram = figures["histogram"]
    assert sum(histogram["counts"]) == len(values)
    assert histogram["low"] <= values[0] <= values[-1] <= histogram["high"]
    assert (figures["min"], figures["max"]) == (values[0], values[-1])


def test_sums_may_exceed_every_float() -> None:
    array = np.full(1 << 19, 1.7e308)
    with np.errstate(all="ignore"):
        figures = figures_of(array, 8, span_of(array))
        change = relative_change(array, array)
    assert figures["norm"] == math.inf
    assert change == 0
