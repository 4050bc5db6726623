"""Histograms: the composing functions, and errors."""

from __future__ import annotations

import pytest

import core as mx
from core.errors import AttributeValueError, ShapeError
from oracle.apply import make


def test_histogram_as_a_symbol() -> None:
    counts, edges = mx.sym.histogram(mx.sym.Variable("x"), bins=2, range=(0, 4))
    numbers = mx.nd.array([0, 1, 2, 3, 4])
    assert counts.eval(x=numbers)[0].asnumpy().tolist() == [2, 3]
    assert edges.eval(x=numbers)[0].asnumpy().tolist() == [0, 2, 4]


def test_incomplete_bins_are_refused() -> None:
    with pytest.raises(AttributeValueError, match="give both, or neither and bins"):
        make("_histogram", {"bin_cnt": 3})
    with pytest.raises(AttributeValueError, match="expected the smaller edge first"):
        make("_histogram", {"bin_cnt": 3, "range": (2, 1)})
    with pytest.raises(ShapeError, match="at least two edges"):
        make("_histogram", {}).infer_shape([(3,), (1,)], [None, None])
