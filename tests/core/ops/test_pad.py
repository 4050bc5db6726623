"""Padding and upsampling: inference and errors."""

from __future__ import annotations

import pytest

from core.errors import AttributeValueError, ShapeError
from core.ops import make_operator
from oracle.apply import make

WIDTH = (0, 0, 0, 0, 1, 2, 3, 0)


def pad(data, output=None, **attrs):
    return make("Pad", {"mode": "constant", **attrs}).infer_shape([data], [output])


def enlarge(*inputs, **attrs):
    attrs = {"scale": 2, "sample_type": "nearest", "num_args": len(inputs), **attrs}
    return make("UpSampling", attrs).infer_shape(list(inputs), [None])


def test_minus_infinity_in_the_notation_of_published_graphs() -> None:
    attrs = {"mode": "constant", "pad_width": "(0,0,0,0,0,1,0,1)", "constant_value": "-inf"}
    operator = make_operator("Pad", "node", attrs)
    assert operator.infer_shape([(1, 3, 4, 4)], [None])[1] == [(1, 3, 5, 5)]


def test_padded_shapes_are_inferred_both_ways() -> None:
    assert pad((0, 1, 2, 0), pad_width=WIDTH) == ([(0, 1, 2, 0)], [(0, 1, 5, 0)])
    assert pad(None, (2, 1, 5, 5), pad_width=WIDTH) == ([(2, 1, 2, 2)], [(2, 1, 5, 5)])


@pytest.mark.parametrize(
    ("attrs", "data", "message"),
    [
        ({"pad_width": WIDTH}, (1, 1, 2), "does not fit data"),
        ({"pad_width": (0, 0, 0, 0, 1, 2)}, (1, 1, 2), "4 or 5 dimensions"),
        ({"pad_width": (1, 0, 0, 0, 1, 2, 3, 0)}, (1, 1, 2, 2), "first two axes"),
        (
            {"pad_width": WIDTH, "mode": "reflect"},
            (1, 1, 2, 2),
            "2 elements has at most 1",
        ),
    ],
)
def test_padding_of_the_wrong_length_is_refused(attrs, data, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        pad(data, **attrs)


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"mode": "constant", "pad_width": (0, 0, 0, 0, -1, 0, 0, 0)}, "minimum is 0"),
        ({"mode": "wrap", "pad_width": WIDTH}, "expected one of constant, edge, reflect"),
        ({"pad_width": WIDTH}, "'mode' is required"),
    ],
)
def test_invalid_padding_attributes_are_refused(attrs, message: str) -> None:
    with pytest.raises(AttributeValueError, match=message):
        make("Pad", attrs)


def test_upsampled_shapes() -> None:
    assert enlarge((0, 2, 3, 4))[1] == [(0, 2, 6, 8)]
    assert enlarge((1, 2, 4, 4), (1, 3, 8, 8))[1] == [(1, 5, 8, 8)]
    bilinear = enlarge((1, 2, 3, 4), None, sample_type="bilinear", num_filter=2, num_args=1)
    assert bilinear == ([(1, 2, 3, 4), (2, 1, 4, 4)], [(1, 2, 6, 8)])


@pytest.mark.parametrize(
    ("inputs", "attrs", "message"),
    [
        (((1, 2, 4, 4), (1, 3, 3, 3)), {}, "cannot be enlarged to height and width"),
        (((1, 2, 4, 4), (1, 3, 2, 2)), {"multi_input_mode": "sum"}, "equal channels"),
        (((1, 2, 3),), {}, "expected 4 dimensions"),
    ],
)
def test_inputs_of_incompatible_sizes_are_refused(inputs, attrs, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        enlarge(*inputs, **attrs)


def test_invalid_upsampling_attributes_are_refused() -> None:
    with pytest.raises(AttributeValueError, match="'num_filter' is required for bilinear"):
        make("UpSampling", {"scale": 2, "sample_type": "bilinear", "num_args": 1})
    with pytest.raises(AttributeValueError, match="minimum is 1"):
        make("UpSampling", {"scale": 0, "sample_type": "nearest", "num_args": 1})
