"""Constants and ranges: inference and errors."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.errors import AttributeValueError, ShapeError, TypeInferenceError
from oracle import golden_file
from oracle.apply import make


def infer(op: str, output=None, **attrs):
    return make(op, attrs).infer_shape([], [output])[1][0]


def test_unknown_dimensions_of_zeros_are_inferred() -> None:
    assert infer("_zeros", shape=(0, 128)) == (0, 128)
    assert infer("_zeros", (32, 128), shape=(0, 128)) == (32, 128)
    assert infer("_zeros", (32, 128)) == (32, 128)
    assert infer("_full", value=1) is None
    with pytest.raises(ShapeError, match=r"output has shape \(32, 64\), expected \(0, 128\)"):
        infer("_zeros", (32, 64), shape=(0, 128))


def test_the_dtype_attribute_decides() -> None:
    operator = make("_zeros", {"shape": (2,), "dtype": "float16"})
    assert operator.infer_type([], [None]) == ([], [np.dtype("float16")])
    with pytest.raises(TypeInferenceError, match="expected float16"):
        operator.infer_type([], [np.dtype("float32")])


def test_context_is_accepted() -> None:
    make("_zeros", {"shape": (2,), "ctx": "cpu(0)"})


def test_lengths_of_aranges() -> None:
    assert infer("_arange", start=5) == (5,)
    assert infer("_arange", start=0, stop=5, step=2, repeat=2) == (6,)
    assert infer("_arange", start=0.5, stop=3.2, step=0.3) == (10,)
    assert infer("_arange", start=0, infer_range=True) == (0,)
    assert infer("_arange", (7,), start=0, infer_range=True) == (7,)


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"start": 5, "stop": 0}, "empty range"),
        ({"start": 0, "stop": 5, "step": 0}, "step is 0"),
        ({"start": 0, "stop": 5, "repeat": 0}, "minimum is 1"),
        ({}, "'start' is required"),
    ],
)
def test_invalid_ranges_are_refused(attrs, message: str) -> None:
    with pytest.raises(AttributeValueError, match=f"_arange 'node'.*{message}"):
        make("_arange", attrs)


@pytest.mark.parametrize(("op", "least"), [("_zeros", -1), ("_ones", -1), ("_random_normal", 0)])
def test_negative_dimensions_are_refused(op: str, least: int) -> None:
    with pytest.raises(AttributeValueError, match=f"minimum is {least}"):
        make(op, {"shape": (2, least - 1)})


def test_dimensions_of_minus_one_are_inferred_from_the_reader() -> None:
    """MXNet's test_operator adds such arrays, transposed."""
    sides = mx.sym.ones(shape=(2, -1)), mx.sym.transpose(mx.sym.ones(shape=(3, -1)))
    (out,) = (sides[0] + sides[1]).bind(mx.cpu(), []).forward()
    np.testing.assert_array_equal(out.asnumpy(), np.full((2, 3), 2))


def test_ranges_of_odd_steps_have_the_bits_of_mxnet() -> None:
    expected = golden_file.ops("init")["arange_tenths/out0"]
    found = mx.nd.arange(0.3, 9, 0.1).asnumpy()
    np.testing.assert_array_equal(found, expected)
    like = mx.nd.contrib.arange_like(mx.nd.zeros(found.size), start=0.3, step=0.1)
    np.testing.assert_array_equal(like.asnumpy(), expected)
