"""Quantizing and dequantizing; results of MXNet are in the golden file ``quantized``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.errors import AttributeValueError, TypeInferenceError
from oracle.apply import make

NUMBERS = mx.nd.array([-3, -0.5, 0, 0.26, 1, 7])
"""-3 and 7 are outside the ranges here."""


@pytest.mark.parametrize(
    ("out_type", "expected", "low"),
    [("uint8", [0, 0, 0, 66, 255, 255], -1), ("int8", [-128, -64, 0, 33, 127, 127], -1)],
)
def test_quantizing_and_dequantizing(out_type: str, expected: list[int], low: float) -> None:
    """Values from MXNet 1.9.1."""
    ends = mx.nd.array([-1]), mx.nd.array([1])
    data, *range_ = mx.nd.contrib.quantize(NUMBERS, *ends, out_type=out_type)
    assert data.dtype == np.dtype(out_type)
    assert data.asnumpy().tolist() == expected
    assert [end.asscalar() for end in range_] == [low, 1]
    back = mx.nd.contrib.dequantize(data, *range_).asnumpy()
    lowest = 0 if out_type == "uint8" else -1
    np.testing.assert_allclose(back, NUMBERS.asnumpy().clip(lowest, 1), atol=1 / 127)


def test_int8_ranges_are_symmetric() -> None:
    ends = mx.nd.array([-0.25]), mx.nd.array([0.5])
    data, low, high = mx.nd.contrib.quantize(NUMBERS, *ends, out_type="int8")
    assert (low.asscalar(), high.asscalar()) == (-0.5, 0.5)
    assert data.asnumpy().tolist() == [-128, -127, 0, 66, 127, 127]


def test_zeros_stay_zeros() -> None:
    data, *range_ = mx.nd.contrib.quantize_v2(mx.nd.zeros((2, 3)))
    assert data.asnumpy().tolist() == [[0] * 3] * 2
    assert mx.nd.contrib.dequantize(data, *range_).asnumpy().tolist() == [[0] * 3] * 2


def test_inferred_shapes_and_dtypes() -> None:
    symbol = mx.sym.contrib.quantize(mx.sym.Variable("data"), name="q")
    assert symbol.list_arguments() == ["data", "q_min_range", "q_max_range"]
    assert symbol.infer_shape(data=(2, 3)) == ([(2, 3), (1,), (1,)], [(2, 3), (1,), (1,)], [])
    assert symbol.infer_type()[1] == [np.uint8, np.float32, np.float32]
    with pytest.raises(TypeInferenceError, match="data has dtype int32"):
        make("_contrib_dequantize", {}).infer_type([np.dtype("int32"), None, None], [None])


def test_data_of_the_other_byte_type_is_refused() -> None:
    """MXNet would read uint8 as int8."""
    with pytest.raises(TypeInferenceError, match="expected float32, or int8"):
        mx.nd.contrib.quantize_v2(mx.nd.zeros((2,), dtype="uint8"), out_type="auto")


@pytest.mark.parametrize("name", ["quantize_v2", "requantize", "quantized_elemwise_add"])
def test_half_a_calibration_range_is_refused(name: str) -> None:
    with pytest.raises(AttributeValueError, match="give both or none"):
        make(f"_contrib_{name}", {"min_calib_range": "1"})


@pytest.mark.parametrize(
    ("name", "attributes", "message"),
    [
        ("quantized_act", {"act_type": "tanh"}, "'relu' only"),
        ("quantized_batch_norm", {}, "calib_mode other than 'none'"),
        ("quantized_pooling", {"kernel": "(2, 2)", "pool_type": "sum"}, "'max' or 'avg'"),
        ("quantized_conv", {"kernel": "(2, 2)", "num_filter": "3", "pad": "(1,)"}, "pad is"),
    ],
)
def test_what_quantized_operators_do_not_support_is_refused(
    name: str, attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(AttributeValueError, match=message):
        _infer(name, attributes)


def _infer(name: str, attributes: dict[str, Any]) -> None:
    operator = make(f"_contrib_{name}", attributes)
    operator.infer_type([None] * len(operator.input_names()), [None] * 3)


def test_a_bias_is_rescaled_to_the_scale_of_the_sums() -> None:
    """MXNet rescales it on GPUs and in fully connected layers, but not in convolutions on CPUs."""
    ends = {
        name: mx.nd.array([1.0 if "max" in name else -1.0])
        for name in ("min_data", "max_data", "min_weight", "max_weight", "min_bias", "max_bias")
    }
    data = mx.nd.array([[[[100]]]], dtype="int8")
    weight, bias = mx.nd.array([[[[50]]]], dtype="int8"), mx.nd.array([127], dtype="int8")
    out, low, high = mx.nd.contrib.quantized_conv(
        data, weight, bias, kernel=(1, 1), num_filter=1, **ends
    )
    real = out.asscalar() * high.asscalar() / 2**31
    assert real == pytest.approx(100 / 127 * 50 / 127 + 127 / 127, rel=1e-2)
    assert low.asscalar() == -high.asscalar()


@pytest.mark.parametrize(("kind", "most"), [("int8", 127), ("uint8", 255)])
def test_a_convolutions_output_range_follows_from_its_inputs(kind: str, most: int) -> None:
    data = mx.nd.array(np.full((1, 1, 2, 2), most), dtype=kind)
    weight = mx.nd.array(np.full((1, 1, 1, 1), 127), dtype="int8")
    ends = [mx.nd.array([end]) for end in (0, 3, -0.5, 0.5)]
    sums, _, high = mx.nd.contrib.quantized_conv(
        data, weight, *ends, kernel=(1, 1), num_filter=1, no_bias=True
    )
    real = sums.asnumpy() / 2.0**31 * high.asnumpy()
    np.testing.assert_allclose(real, np.full((1, 1, 2, 2), 1.5), rtol=1e-6)


def test_training_is_refused() -> None:
    symbol = mx.sym.contrib.dequantize(*mx.sym.contrib.quantize_v2(mx.sym.Variable("data")))
    with pytest.raises(mx.MXNetError, match=r"has no gradient.*set grad_req"):
        symbol.simple_bind(mx.cpu(), data=(2, 3))
    executor = symbol.simple_bind(mx.cpu(), data=(2, 3), grad_req="null")
    assert executor.forward()[0].shape == (2, 3)
