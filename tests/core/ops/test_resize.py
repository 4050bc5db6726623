"""Resizing images: inference and errors."""

from __future__ import annotations

import pytest

from core.errors import AttributeValueError, ShapeError
from oracle.apply import make


def infer(op: str, *inputs, output=None, **attrs):
    return make(op, attrs).infer_shape(list(inputs), [output])


def test_inferred_shapes() -> None:
    pool = "_contrib_AdaptiveAvgPooling2D"
    assert infer(pool, (2, 3, 0, 0), output_size=(4, 5))[1] == [(2, 3, 4, 5)]
    assert infer(pool, (0, 3, 7, 7), output=(2, 0, 0, 0))[0] == [(2, 3, 7, 7)]
    with pytest.raises(AttributeValueError, match="expected height and width"):
        make(pool, {"output_size": (1, 2, 3)})
    with pytest.raises(ShapeError, match="data has shape"):
        infer(pool, (2, 3, 7))


def test_modes_of_bilinear_resize() -> None:
    resize = "_contrib_BilinearResize2D"
    assert make(resize, {"mode": "like"}).input_names() == ("data", "like")
    like = infer(resize, (2, 3, 4, 5), (1, 1, 8, 9), mode="like")
    assert like[1] == [(2, 3, 8, 9)]
    with pytest.raises(AttributeValueError, match="scale_height is missing; mode odd_scale"):
        make(resize, {"mode": "odd_scale", "scale_width": 2})
    with pytest.raises(AttributeValueError, match=r"scale_height is -1\.0"):
        make(resize, {"scale_height": -1})
    with pytest.raises(ShapeError, match="mode to_even_down would make it empty"):
        infer(resize, (2, 3, 1, 5), mode="to_even_down")
