"""Correlation: inference and errors."""

from __future__ import annotations

import pytest

from core.errors import AttributeValueError, ShapeError
from oracle.apply import make


def test_inferred_shapes() -> None:
    attrs = {"kernel_size": 3, "max_displacement": 4, "stride1": 2, "stride2": 2, "pad_size": 4}
    found = make("Correlation", attrs).infer_shape([(2, 8, 9, 10), None], [None])
    assert found == ([(2, 8, 9, 10)] * 2, [(2, 25, 4, 4)])


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(AttributeValueError, match="kernel_size is 2; expected an odd number"):
        make("Correlation", {"kernel_size": 2})
    with pytest.raises(ShapeError, match="max_displacement 5 need more than 10 rows and columns"):
        make("Correlation", {"max_displacement": 5}).infer_shape([(2, 8, 9, 10), None], [None])
    with pytest.raises(ShapeError, match="data2 has shape"):
        make("Correlation", {}).infer_shape([(2, 8, 9, 10), (2, 8, 9, 9)], [None])
