"""Convolution and Deconvolution: layouts that MXNet's CPU build lacks, inference, errors."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import AttributeValueError, ShapeError
from oracle.apply import apply, make

RANDOM = np.random.RandomState(5)


def normal(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RANDOM.normal(size=shape).astype(dtype)


def to_last(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(array, 1, -1)) if array.ndim > 1 else array


def infer(op: str, data, weight=None, output=None, **attrs):
    operator = make(op, {"num_filter": 4, "kernel": (3, 3), "no_bias": True, **attrs})
    return operator.infer_shape([data, weight], [output])


@pytest.mark.parametrize(
    ("op", "data", "weight", "attrs"),
    [
        ("Convolution", (3, 2, 6, 5), (4, 2, 3, 3), {"stride": (2, 1), "pad": (1, 0)}),
        ("Convolution", (2, 4, 5, 5), (4, 2, 3, 3), {"num_group": 2}),
        ("Convolution", (2, 2, 4, 3, 4), (4, 2, 2, 2, 2), {}),
        ("Deconvolution", (2, 3, 4, 4), (3, 4, 3, 3), {"stride": (2, 2), "no_bias": False}),
        ("Deconvolution", (2, 4, 4, 4), (4, 2, 3, 3), {"num_group": 2, "no_bias": False}),
    ],
)
def test_channels_last_equals_channels_first(op, data, weight, attrs) -> None:
    inputs = [normal(*data), normal(*weight), normal(4)]
    attrs = {"num_filter": 4, "kernel": weight[2:], **attrs}
    operator = make(op, attrs)
    _, (output,) = operator.infer_shape([x.shape for x in inputs], [None])
    head = normal(*output)
    expected = apply(op, attrs, inputs, [head])
    layout = "NHWC" if len(data) == 4 else "NDHWC"
    got = apply(op, {**attrs, "layout": layout}, [to_last(x) for x in inputs], [to_last(head)])
    for x, y in zip([*got.outputs, *got.grads], [*expected.outputs, *expected.grads], strict=True):
        np.testing.assert_allclose(x, to_last(y), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("kernel", "attrs", "output"),
    [
        ((2, 3, 2), {"stride": (2, 1, 1), "pad": (0, 1, 0), "adj": (1, 0, 0)}, (7, 3, 5)),
        ((2, 2, 2), {"target_shape": (4, 4, 5)}, (4, 4, 5)),
    ],
)
def test_1d_deconvolution_is_the_transpose_of_convolution(kernel, attrs, output) -> None:
    data, weight, head = normal(2, 3, 3, 3, 4), normal(3, 2, *kernel), normal(2, 2, *output)
    deconv = apply(
        "Deconvolution", {"num_filter": 2, "kernel": kernel, **attrs}, [data, weight], [head]
    )
    shared = {key: attrs[key] for key in ("stride", "pad") if key in attrs}
    conv = apply(
        "Convolution",
        {"num_filter": 3, "kernel": kernel, "no_bias": True, **shared},
        [head, weight],
        [data],
    )
    np.testing.assert_allclose(deconv.outputs[0], conv.grads[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(deconv.grads[0], conv.outputs[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(deconv.grads[1], conv.grads[1], rtol=1e-5, atol=1e-5)


def test_half_precision_accumulates_in_float32() -> None:
    ones = [np.ones((1, 4096, 1, 1), "float16"), np.ones((1, 4096, 1, 1), "float16")]
    attrs = {"num_filter": 1, "kernel": (1, 1), "no_bias": True}
    got = apply("Convolution", attrs, ones, [np.ones((1, 1, 1, 1), "float16")])
    assert got.outputs[0].dtype == got.grads[0].dtype == np.float16
    assert got.outputs[0].item() == 4096


def test_input_sizes_are_inferred_from_the_output_at_stride_one() -> None:
    got = infer("Convolution", (0, 3, 0, 0), output=(2, 4, 7, 8), stride=(1, 2), pad=(1, 1))
    assert got == ([(2, 3, 7, 0), (4, 3, 3, 3)], [(2, 4, 7, 8)])


def test_unknown_sizes_stay_unknown() -> None:
    assert infer("Convolution", (0, 0, 0, 8)) == ([(0, 0, 0, 8), (4, 0, 3, 3)], [(0, 4, 0, 6)])
    assert infer("Convolution", None, (4, 2, 3, 3)) == ([None, (4, 2, 3, 3)], [None])
    assert infer("Deconvolution", (0, 3, 0, 8)) == ([(0, 3, 0, 8), (3, 4, 3, 3)], [(0, 4, 0, 10)])


def test_channels_last_inference() -> None:
    got = infer("Convolution", (1, 8, 0, 2), layout="NHWC")
    assert got == ([(1, 8, 0, 2), (4, 3, 3, 2)], [(1, 6, 0, 4)])


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "message"),
    [
        (
            "Convolution",
            ((2, 4, 5, 5), (4, 3, 3, 3)),
            {},
            "weight has 3 input channels, data has 4; set num_group or fix data_shapes",
        ),
        (
            "Convolution",
            ((2, 4, 5, 5), (4, 4, 3, 3)),
            {"num_group": 2},
            "weight has 4 input channels, data has 4 in 2 groups; set num_group",
        ),
        ("Convolution", ((2, 4, 5, 5), (6, 4, 3, 3)), {}, r"weight .* expected \(4, 4, 3, 3\)"),
        ("Convolution", ((2, 4, 5, 5), (4, 4)), {}, r"weight .* needs 4 dimensions"),
        ("Convolution", ((2, 4, 5),), {}, r"data .* 2 axes needs 4 dimensions"),
        ("Convolution", ((2, 3, 5, 5),), {"num_group": 2}, "3 channels, which num_group 2 does"),
        (
            "Convolution",
            ((2, 4, 5, 1),),
            {},
            "data has 1 elements along spatial axis 1, with padding 1; the kernel spans 3",
        ),
        (
            "Convolution",
            ((2, 4, 5, 5), None, (2, 4, 4, 4)),
            {},
            r"output has shape \(2, 4, 4, 4\), expected \(2, 4, 3, 3\)",
        ),
        ("Deconvolution", ((2, 3, 5, 5), (4, 4, 3, 3)), {}, "weight has 4 input channels, data"),
        (
            "Deconvolution",
            ((1, 3, 4, 4),),
            {"target_shape": (7, 7)},
            r"target_shape is \(7, 7\); with data of \(4, 4\) it can be \(6, 6\) at most",
        ),
        ("Deconvolution", ((1, 3, 1, 1),), {"pad": (2, 2)}, "leaves no output"),
    ],
)
def test_contradicting_shapes_are_refused(op, shapes, attrs, message) -> None:
    with pytest.raises(ShapeError, match=message):
        infer(op, *shapes, **attrs)


@pytest.mark.parametrize(
    ("op", "attrs", "message"),
    [
        ("Convolution", {"kernel": (3,) * 4}, r"Convolution 'node': kernel is .* 1 to 3 axes"),
        ("Convolution", {"stride": (1,)}, r"stride is \(1,\), kernel is \(3, 3\)"),
        ("Convolution", {"stride": (0, 1)}, "'stride' is .*; its minimum is 1"),
        ("Convolution", {"pad": (1, 1, 1)}, r"pad is \(1, 1, 1\)"),
        ("Convolution", {"layout": "NCW"}, "layout is 'NCW'; expected one with 2 spatial axes"),
        ("Convolution", {"layout": "CHWN"}, "'layout' is 'CHWN'; expected one of NCW"),
        ("Convolution", {"num_group": 3}, "num_filter is 4; expected a multiple of num_group 3"),
        (
            "Convolution",
            {"filters": 3},
            "attribute 'filters' is unknown; did you mean 'num_filter'",
        ),
        ("Deconvolution", {"adj": (1, 0)}, r"adj is \(1, 0\); expected less than stride \(1, 1\)"),
        ("Deconvolution", {"target_shape": (0, 4)}, "expected a size along every axis"),
    ],
)
def test_invalid_attributes_are_refused(op, attrs, message) -> None:
    with pytest.raises(AttributeValueError, match=message):
        make(op, {"num_filter": 4, "kernel": (3, 3), **attrs})


def test_device_hints_are_accepted() -> None:
    hints = {"workspace": 512, "cudnn_tune": "limited_workspace", "cudnn_off": True}
    assert make("Convolution", {"num_filter": 4, "kernel": 3, **hints}).kernel == (3,)
