"""Real numbers as bytes, after MXNet's formulas."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from core.errors import TypeInferenceError
from oracle.apply import make

NUMBERS = mx.nd.array([-3, -0.5, 0, 0.26, 1, 7])
"""-3 and 7 are outside the ranges here."""


@pytest.mark.parametrize(
    ("out_type", "expected", "low"),
    [("uint8", [0, 64, 128, 161, 255, 255], -1), ("int8", [-127, -64, 0, 33, 127, 127], -1)],
)
def test_bytes_and_back(out_type: str, expected: list[int], low: float) -> None:
    ends = mx.nd.array([-1]), mx.nd.array([1])
    data, *range_ = mx.nd.contrib.quantize(NUMBERS, *ends, out_type=out_type)
    assert data.dtype == np.dtype(out_type)
    assert data.asnumpy().tolist() == expected
    assert [end.asscalar() for end in range_] == [low, 1]
    back = mx.nd.contrib.dequantize(data, *range_).asnumpy()
    np.testing.assert_allclose(back, NUMBERS.asnumpy().clip(-1, 1), atol=0.5 / 127)


def test_signed_bytes_span_as_much_on_both_sides_of_zero() -> None:
    ends = mx.nd.array([-0.25]), mx.nd.array([0.5])
    data, low, high = mx.nd.contrib.quantize(NUMBERS, *ends, out_type="int8")
    assert (low.asscalar(), high.asscalar()) == (-0.5, 0.5)
    assert data.asnumpy().tolist() == [-127, -127, 0, 66, 127, 127]


def test_inference() -> None:
    symbol = mx.sym.contrib.quantize(mx.sym.Variable("data"), name="q")
    assert symbol.list_arguments() == ["data", "q_min_range", "q_max_range"]
    assert symbol.infer_shape(data=(2, 3)) == ([(2, 3), (1,), (1,)], [(2, 3), (1,), (1,)], [])
    assert symbol.infer_type()[1] == [np.uint8, np.float32, np.float32]
    with pytest.raises(TypeInferenceError, match="data has dtype int32"):
        make("_contrib_dequantize", {}).infer_type([np.dtype("int32"), None, None], [None])
