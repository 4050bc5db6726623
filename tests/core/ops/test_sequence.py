"""Sequence operators: inference, out-of-range lengths and errors."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import ShapeError
from oracle.apply import apply, make

OPERATORS = ("SequenceMask", "SequenceLast", "SequenceReverse")
LENGTHS = {"use_sequence_length": True}


def infer(op: str, *inputs, output=None, **attrs):
    return make(op, attrs).infer_shape(list(inputs), [output])


@pytest.mark.parametrize("op", OPERATORS)
def test_lengths_are_an_input_where_used(op: str) -> None:
    assert make(op, {}).input_names() == ("data",)
    assert make(op, LENGTHS).input_names() == ("data", "sequence_length")
    assert make(op, LENGTHS).gradient_inputs(2) == (0,)


@pytest.mark.parametrize("op", OPERATORS)
def test_lengths_shape_is_inferred_from_the_batch(op: str) -> None:
    assert infer(op, (5, 2, 3), None, **LENGTHS)[0][1] == (2,)
    with pytest.raises(ShapeError, match=r"sequence_length has shape \(3,\), expected \(2,\)"):
        infer(op, (5, 2, 3), (3,), **LENGTHS)


@pytest.mark.parametrize("op", OPERATORS)
def test_data_needs_time_and_batch(op: str) -> None:
    with pytest.raises(ShapeError, match="at least 2 dimensions"):
        infer(op, (5,))


def test_axes_are_checked() -> None:
    assert infer("SequenceMask", (5, 2, 3), None, axis=1, **LENGTHS)[0][1] == (5,)
    assert infer("SequenceLast", (5, 2, 3), axis=1)[1] == [(5, 3)]
    with pytest.raises(ShapeError, match="axis is 2; expected 0 or 1"):
        infer("SequenceMask", (2, 3, 4), axis=2)
    with pytest.raises(ShapeError, match="along axis 0 only"):
        infer("SequenceReverse", (2, 3, 4), axis=1)


def test_data_shape_is_inferred_from_the_output() -> None:
    assert infer("SequenceMask", None, output=(5, 2))[0] == [(5, 2)]
    assert infer("SequenceLast", (5, 0, 3), output=(2, 3))[0] == [(5, 2, 3)]


def test_lengths_beyond_the_data_are_clipped() -> None:
    data = np.arange(6, dtype="float32").reshape(3, 2)
    lengths = np.float32([9, -2])
    mask = apply("SequenceMask", {**LENGTHS, "value": -1}, [data, lengths]).outputs[0]
    np.testing.assert_array_equal(mask, [[0, -1], [2, -1], [4, -1]])
    last = apply("SequenceLast", LENGTHS, [data, lengths]).outputs[0]
    np.testing.assert_array_equal(last, [4, 1])
    reverse = apply("SequenceReverse", LENGTHS, [data, lengths]).outputs[0]
    np.testing.assert_array_equal(reverse, [[4, 1], [2, 3], [0, 5]])


def test_lengths_may_have_another_dtype() -> None:
    f16, i32 = np.dtype("float16"), np.dtype("int32")
    operator = make("SequenceMask", LENGTHS)
    assert operator.infer_type([f16, i32], [None]) == ([f16, i32], [f16])
    assert operator.infer_type([f16, None], [None]) == ([f16, f16], [f16])
