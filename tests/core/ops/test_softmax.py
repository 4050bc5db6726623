"""softmax, log_softmax, softmin: lengths, dtypes, errors."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import AttributeValueError, ShapeError, TypeInferenceError
from oracle.apply import apply, make

FLOAT, HALF, INT = np.dtype("float32"), np.dtype("float16"), np.dtype("int32")


def test_a_length_beyond_the_axis_counts_everything() -> None:
    data = np.array([[1.0, 2.0, 3.0]], dtype="float32")
    lengths = np.array([9], dtype="int32")
    got = apply("softmax", {"use_length": True}, [data, lengths])
    np.testing.assert_array_equal(got.outputs[0], apply("softmax", {}, [data]).outputs[0])


def test_length_has_datas_shape_without_the_axis() -> None:
    operator = make("softmax", {"use_length": True, "axis": 1})
    assert operator.input_names() == ("data", "length")
    assert operator.infer_shape([(2, 3, 4), None], [None])[0] == [(2, 3, 4), (2, 4)]
    with pytest.raises(ShapeError, match=r"length has shape \(2, 3\), expected \(2, 4\)"):
        operator.infer_shape([(2, 3, 4), (2, 3)], [None])


def test_outputs_have_the_dtype_of_the_data_or_the_given_one() -> None:
    assert make("softmax", {}).infer_type([None], [HALF]) == ([HALF], [HALF])
    wide = make("log_softmax", {"dtype": "float32"})
    assert wide.infer_type([HALF], [None]) == ([HALF], [FLOAT])
    assert wide.infer_type([None], [None]) == ([None], [FLOAT])
    with pytest.raises(TypeInferenceError, match="data has dtype int32; expected a floating"):
        make("softmin", {}).infer_type([INT], [None])
    with pytest.raises(TypeInferenceError, match="output has dtype float16, expected float32"):
        wide.infer_type([HALF], [HALF])


@pytest.mark.parametrize("op", ["softmax", "log_softmax", "softmin"])
def test_axis_out_of_range(op: str) -> None:
    with pytest.raises(ShapeError, match="axis 2 is out of range for 2 dimensions"):
        make(op, {"axis": 2}).infer_shape([(2, 3)], [None])


@pytest.mark.parametrize("op", ["log_softmax", "softmin"])
def test_only_softmax_accepts_lengths(op: str) -> None:
    with pytest.raises(AttributeValueError, match=f"{op} 'node': use_length is True; only softmax"):
        make(op, {"use_length": True})
