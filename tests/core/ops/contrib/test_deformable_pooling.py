"""Deformable pooling: inference and errors."""

from __future__ import annotations

import pytest

from core.errors import AttributeValueError, ShapeError
from oracle.apply import make

ATTRS = {"spatial_scale": 0.5, "output_dim": 4, "group_size": 2, "pooled_size": 3}


def infer(*inputs, **attrs):
    operator = make("_contrib_DeformablePSROIPooling", {**ATTRS, **attrs})
    return operator.infer_shape(list(inputs), [None])


def test_inferred_shapes() -> None:
    found = infer((2, 16, 7, 8), (5, 0), (0, 4, 0, 0), part_size=2)
    assert found == ([(2, 16, 7, 8), (5, 5), (5, 4, 2, 2)], [(5, 4, 3, 3)])
    assert infer((2, 16, 7, 8), (5, 5), no_trans=True)[1] == [(5, 4, 3, 3)]


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(ShapeError, match="15 channels; expected output_dim 4 times 4 groups"):
        infer((2, 15, 7, 8), (5, 5), None)
    with pytest.raises(AttributeValueError, match="trans has 6 channels; expected two for each"):
        infer((2, 16, 7, 8), (5, 5), (5, 6, 3, 3))
