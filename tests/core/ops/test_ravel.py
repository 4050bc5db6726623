"""ravel_multi_index and unravel_index: inference and errors."""

from __future__ import annotations

import pytest

from core.errors import AttributeValueError, ShapeError
from oracle.apply import make


def infer(op: str, *data, **attrs):
    return make(op, attrs).infer_shape([data[0]], [None])


def test_inferred_shapes() -> None:
    assert infer("_ravel_multi_index", (0, 5), shape=(-1, 6)) == ([(2, 5)], [(5,)])
    assert infer("_unravel_index", (5,), shape=(7, 6)) == ([(5,)], [(2, 5)])


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ShapeError, match="expected one row for each of"):
        infer("_ravel_multi_index", (3, 5), shape=(7, 6))
    for op in ("_ravel_multi_index", "_unravel_index"):
        with pytest.raises(AttributeValueError, match="expected the dimensions of an array"):
            infer(op, (2,), shape=(7, -1))
        with pytest.raises(AttributeValueError, match="expected the dimensions of an array"):
            infer(op, (2,))
