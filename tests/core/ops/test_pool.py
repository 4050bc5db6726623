"""Pooling: NaN, inference and errors."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import AttributeValueError, ShapeError, TypeInferenceError
from oracle.apply import apply, make


def infer(data, output=None, **attrs):
    return make("Pooling", attrs).infer_shape([data], [output])


def test_max_pooling_ignores_nan_as_in_mxnet() -> None:
    data = np.array([[[np.nan, 2.0, 1.0]]], dtype="float32")
    head = np.ones((1, 1, 2), dtype="float32")
    got = apply("Pooling", {"kernel": (2,)}, [data], [head])
    np.testing.assert_array_equal(got.outputs[0], [[[2, 2]]])
    np.testing.assert_array_equal(got.grads[0], [[[0, 2, 0]]])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_nan_gradient_reaches_only_the_maximum(dtype) -> None:
    data = np.array([[[[1, 5, 2, 0], [3, 4, 9, 6], [7, 1, 2, 8]]]], dtype=dtype)
    head = np.array([[[[np.nan, 2, 3], [4, 5, np.inf]]]], dtype=dtype)
    got = apply("Pooling", {"kernel": (2, 2)}, [data], [head])
    inf, nan = np.inf, np.nan
    expected = [[[[0, nan, 0, 0], [0, 0, inf, 0], [4, 0, 0, 0]]]]  # MXNet 1.9.1's values
    np.testing.assert_array_equal(got.grads[0], expected)


def test_means_of_half_precision_accumulate_in_float32() -> None:
    data = np.full((1, 1, 4096), 32.0, dtype="float16")
    got = apply("Pooling", {"global_pool": True, "pool_type": "avg"}, [data])
    assert got.outputs[0].item() == 32


def test_unknown_sizes_stay_unknown() -> None:
    assert infer((0, 3, 0, 8), (2, 3, 0, 7), kernel=(2, 2)) == ([(2, 3, 0, 8)], [(2, 3, 0, 7)])
    assert infer(None, kernel=(2, 2)) == ([None], [None])


def test_channels_and_batch_are_inferred_from_the_output() -> None:
    assert infer((0, 0, 8), (2, 3, 7), kernel=(2,)) == ([(2, 3, 8)], [(2, 3, 7)])
    got = infer((0, 8, 0), (2, 7, 3), kernel=(2,), layout="NWC")
    assert got == ([(2, 8, 3)], [(2, 7, 3)])


@pytest.mark.parametrize(
    ("data", "attrs", "message"),
    [
        ((1, 3, 8), {"kernel": (2, 2)}, r"kernel \(2, 2\) needs 4 dimensions"),
        ((1, 3), {"global_pool": True}, "expected 3 to 5 dimensions"),
        (
            (1, 3, 8, 2),
            {"kernel": (2, 5), "pad": (0, 1)},
            "data has 2 elements along spatial axis 1, with padding 4; the kernel spans 5",
        ),
    ],
)
def test_contradicting_shapes_are_refused(data, attrs, message) -> None:
    with pytest.raises(ShapeError, match=message):
        infer(data, **attrs)


def test_a_wrong_output_shape_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"output has shape \(1, 3, 5\), expected \(1, 3, 7\)"):
        infer((1, 3, 8), (1, 3, 5), kernel=(2,))


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({}, r"kernel is \(\); expected 1 to 3 axes"),
        ({"kernel": (2, 2), "stride": (0, 0)}, "'stride' is .* minimum is 1"),
        ({"kernel": (2, 2), "stride": (1,)}, r"stride is \(1,\), kernel is \(2, 2\)"),
        ({"kernel": (2, 2), "pad": (1,)}, r"pad is \(1,\)"),
        ({"kernel": (2, 2), "layout": "NCW"}, "layout is 'NCW'"),
        ({"kernel": (2, 2), "pool_type": "lp"}, "p_value is missing"),
        ({"kernel": (2, 2), "pool_type": "lp", "p_value": 4}, "'p_value' is 4; its maximum is 3"),
        ({"kernel": (2, 2), "pooling_convention": "same"}, "expected one axis and no padding"),
        ({"kernel": (2, 2), "pool_type": "min"}, "expected one of max, avg, sum, lp"),
    ],
)
def test_invalid_attributes_are_refused(attrs, message) -> None:
    with pytest.raises(AttributeValueError, match=message):
        make("Pooling", attrs)


def test_integers_are_refused() -> None:
    with pytest.raises(TypeInferenceError, match="data has dtype int32; expected a floating"):
        make("Pooling", {"kernel": 2}).infer_type([np.dtype("int32")], [None])
