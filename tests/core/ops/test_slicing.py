"""Slicing and splitting: inference and errors."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.errors import AttributeValueError, ShapeError
from core.ops import make_operator
from oracle.apply import apply, make


def infer(op: str, *inputs, outputs=None, **attrs):
    operator = make(op, attrs)
    count = len(operator.output_names())
    return operator.infer_shape(list(inputs), list(outputs or [None] * count))


def test_bounds_in_the_notation_of_published_graphs() -> None:
    attrs = {"begin": "(None, 32, None, None)", "end": "(None, None, None, None)"}
    operator = make_operator("slice", "node", attrs)
    assert operator.infer_shape([(1, 64, 7, 7)], [None])[1] == [(1, 32, 7, 7)]


def test_a_negative_begin_before_the_start_is_clipped() -> None:
    data = np.arange(5, dtype="float32")
    got = apply("slice", {"begin": (-9,), "end": (2,)}, [data]).outputs[0]
    np.testing.assert_array_equal(got, [0, 1])


def test_unknown_dimensions_stay_unknown() -> None:
    assert infer("slice", (0, 4), begin=(None, 1), end=(None, 3))[1] == [(0, 2)]
    assert infer("slice_axis", (0, 4), axis=0, begin=0, end=1)[1] == [(0, 4)]
    assert infer("slice_axis", (0, 4), axis=1, begin=0, end=1)[1] == [(0, 1)]


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"begin": (1, 1), "end": (2,)}, "differ in length"),
        ({"begin": (1, 1), "end": (2, 2), "step": (1,)}, "differ in length"),
        ({"begin": (None,), "end": (None,), "step": (0,)}, "must not be 0"),
        ({"begin": (1,)}, "'end' is required"),
        ({"begin": (1,), "end": ("x",)}, "an integer or None"),
    ],
)
def test_malformed_bounds_are_refused(attrs, message: str) -> None:
    with pytest.raises(AttributeValueError, match=f"slice 'node'.*{message}"):
        make("slice", attrs)


@pytest.mark.parametrize(
    ("begin", "end", "message"),
    [
        ((1, 1, 1), (2, 2, 2), "names 3 axes, data .* has 2"),
        ((3,), (1,), "select nothing of axis 0"),
        ((5,), (6,), "select nothing of axis 0"),
    ],
)
def test_out_of_range_bounds_are_refused(begin, end, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        infer("slice", (5, 4), begin=begin, end=end)


@pytest.mark.parametrize(("begin", "end"), [(0, 9), (3, 2), (2, 2), (-9, 2), (5, None)])
def test_slice_axis_refuses_invalid_ranges(begin, end) -> None:
    with pytest.raises(ShapeError, match="select no range of axis 0, which has size 5"):
        infer("slice_axis", (5, 4), axis=0, begin=begin, end=end)


def test_slice_axis_is_inferred_both_ways() -> None:
    got = infer("slice_axis", (0, 8), outputs=[(4, 0)], axis=1, begin=2, end=5)
    assert got == ([(4, 8)], [(4, 3)])
    with pytest.raises(ShapeError, match="axis 2 is out of range"):
        infer("slice_axis", (5, 4), axis=2, begin=0, end=1)


def test_slice_like_needs_axes_that_are_long_enough() -> None:
    with pytest.raises(ShapeError, match="shorter than axis 1"):
        infer("slice_like", (5, 4), (2, 7))
    with pytest.raises(ShapeError, match="name the axes"):
        infer("slice_like", (5, 4), (2,))
    assert infer("slice_like", (0, 4), (2,), axes=(0,))[1] == [(2, 4)]


@pytest.mark.parametrize(
    ("attrs", "data", "message"),
    [
        ({"num_outputs": 4}, (2, 6), "num_outputs 4 does not divide"),
        ({"num_outputs": 3, "squeeze_axis": 1}, (2, 6), "length 2; it must be 1"),
        ({"num_outputs": 3, "axis": 5}, (2, 6), "axis 5 is out of range"),
    ],
)
def test_lengths_that_cannot_be_split_are_refused(attrs, data, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        infer("SliceChannel", data, **attrs)


def test_split_infers_the_data_shape() -> None:
    got = infer("SliceChannel", (0, 6), outputs=[(4, 2), None, None], num_outputs=3)
    assert got == ([(4, 6)], [(4, 2)] * 3)
    got = infer("SliceChannel", (0, 2), outputs=[None, (5,)], num_outputs=2, squeeze_axis=True)
    assert got[0] == [(5, 2)]


def test_number_of_parts_is_checked() -> None:
    with pytest.raises(AttributeValueError, match="minimum is 1"):
        make("SliceChannel", {"num_outputs": 0})
    with pytest.raises(ShapeError, match="must begin with 0 and increase"):
        infer("_split_v2", (2, 6), indices=(0, 3, 3))


def test_outputs_of_splits_are_numbered() -> None:
    assert make("SliceChannel", {"num_outputs": 2}).output_names() == ("output0", "output1")
    assert make("SliceChannel", {"num_outputs": 1}).output_names() == ("output0",)


@pytest.mark.parametrize(
    ("attrs", "inputs", "message"),
    [
        ({"num_args": 2, "offset": (3, 3)}, [(1, 2, 5, 6), (1, 9, 3, 3)], "height 3 at offset 3"),
        ({"num_args": 1}, [(1, 2, 5, 6)], "height 0"),
        ({"num_args": 1, "h_w": (9, 4)}, [(1, 2, 5, 6)], "not within the data's 5"),
        ({"num_args": 2}, [(1, 2, 5, 6), (1, 9, 8, 3)], "height 8"),
        ({"num_args": 1, "h_w": (2, 2)}, [(5, 6)], "expected 4 dimensions"),
    ],
)
def test_crops_outside_the_data_are_refused(attrs, inputs, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        infer("Crop", *inputs, **attrs)


def test_invalid_crop_attributes_are_refused() -> None:
    with pytest.raises(AttributeValueError, match="maximum is 2"):
        make("Crop", {"num_args": 3})
    with pytest.raises(AttributeValueError, match=r"'offset' is .* expected two numbers"):
        make("Crop", {"num_args": 1, "offset": (1, 2, 3)})


def test_assignments_have_no_gradient_as_in_mxnet() -> None:
    assert not make("_slice_assign", {"begin": (0,), "end": (1,)}).has_backward()


def test_a_vector_split_into_numbers_has_a_gradient() -> None:
    data = mx.nd.array([1, 2, 3])
    data.attach_grad()
    with mx.autograd.record():
        parts = mx.nd.split(data, num_outputs=3, axis=0, squeeze_axis=True)
    mx.autograd.backward([parts[0], parts[2]])
    assert [part.shape for part in parts] == [()] * 3
    assert data.grad.asnumpy().tolist() == [1, 0, 1]
