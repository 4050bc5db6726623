"""Convolution and Deconvolution.

MXNet's CPU build has no NHWC convolution and no 3-D deconvolution; tests/core/ops/test_conv.py
checks those against these.
"""

from __future__ import annotations

from typing import Any

from oracle.case import Case, Spec, normal


def _conv(
    name: str,
    data: tuple[int, ...],
    kernel: tuple[int, ...],
    filters: int = 4,
    dtype: str = "float32",
    train: bool = True,
    **attrs: Any,
) -> Case:
    channels = data[1] // attrs.get("num_group", 1)
    shapes: dict[str, tuple[int, ...]] = {"data": data, "weight": (filters, channels, *kernel)}
    if not attrs.get("no_bias"):
        shapes["bias"] = (filters,)
    inputs: dict[str, Spec | tuple[int, ...]] = {
        key: normal(*shape, dtype=dtype) for key, shape in shapes.items()
    }
    settings = {"kernel": kernel, "num_filter": filters, **attrs}
    return Case(name, "Convolution", settings, inputs, train=train)


def _deconv(
    name: str,
    data: tuple[int, ...],
    kernel: tuple[int, ...],
    filters: int = 4,
    dtype: str = "float32",
    **attrs: Any,
) -> Case:
    per_group = filters // attrs.get("num_group", 1)
    shapes: dict[str, tuple[int, ...]] = {
        "data": data,
        "weight": (data[1], per_group, *kernel),
    }
    if not attrs.get("no_bias", True):
        shapes["bias"] = (filters,)
    inputs: dict[str, Spec | tuple[int, ...]] = {
        key: normal(*shape, dtype=dtype) for key, shape in shapes.items()
    }
    return Case(name, "Deconvolution", {"kernel": kernel, "num_filter": filters, **attrs}, inputs)


CASES = (
    _conv("plain", (2, 3, 6, 5), (3, 3)),
    Case(
        "version_1",
        "Convolution_v1",
        {"kernel": (3, 2), "num_filter": 2, "stride": (2, 1)},
        {"data": (1, 2, 5, 4), "weight": (2, 2, 3, 2), "bias": (2,)},
    ),
    _conv("no_bias", (2, 3, 6, 5), (3, 2), no_bias=True),
    _conv("same", (2, 3, 5, 5), (3, 3), pad=(1, 1), workspace=256, cudnn_tune="off"),
    _conv("strided", (2, 3, 8, 7), (3, 3), stride=(2, 2), pad=(1, 1), layout="NCHW"),
    _conv("stride_leaves_a_rest", (2, 2, 8, 8), (3, 3), stride=(3, 2)),
    _conv("uneven", (1, 2, 7, 9), (2, 3), stride=(1, 2), pad=(0, 2), dilate=(2, 1)),
    _conv("dilated", (2, 2, 9, 9), (3, 3), dilate=(2, 3), pad=(2, 3)),
    _conv("pointwise", (2, 5, 4, 3), (1, 1)),
    _conv("pointwise_many_small", (9, 5, 2, 3), (1, 1)),
    _conv("pointwise_padded", (2, 3, 4, 3), (1, 1), pad=(1, 0)),
    _conv("pointwise_strided", (2, 3, 5, 4), (1, 1), stride=(2, 2)),
    _conv("whole_image", (3, 2, 4, 5), (4, 5)),
    _conv("groups", (2, 4, 5, 5), (3, 3), filters=6, num_group=2),
    _conv("depthwise", (2, 4, 5, 5), (3, 3), num_group=4, pad=(1, 1), no_bias=True),
    _conv("depthwise_multiplier", (2, 3, 5, 5), (3, 3), filters=6, num_group=3, stride=(2, 2)),
    # More images than fit into one chunk of columns, and not a multiple of it.
    _conv("many_images", (19, 2, 4, 4), (3, 3), filters=3, pad=(1, 1)),
    _conv("many_images_groups", (18, 4, 4, 4), (3, 3), num_group=2, stride=(2, 2)),
    _conv("one_axis", (2, 3, 9), (3,), stride=(2,), pad=(1,)),
    _conv("one_axis_dilated", (2, 3, 9), (3,), dilate=(2,), layout="NCW"),
    _conv("one_axis_groups", (2, 4, 7), (2,), num_group=2),
    _conv("three_axes", (2, 2, 4, 5, 4), (2, 3, 2), stride=(1, 2, 1), pad=(1, 0, 1)),
    _conv("three_axes_groups", (1, 2, 3, 4, 4), (2, 2, 2), num_group=2, layout="NCDHW"),
    _conv("float64", (2, 3, 6, 5), (3, 3), pad=(1, 1), dtype="float64"),
    _conv("inference", (2, 3, 6, 5), (3, 3), train=False),
    _deconv("deconv_plain", (2, 3, 4, 5), (3, 3)),
    _deconv("deconv_bias", (2, 3, 4, 5), (3, 3), no_bias=False),
    _deconv("deconv_double", (2, 3, 4, 5), (4, 4), stride=(2, 2), pad=(1, 1)),
    _deconv("deconv_adjusted", (2, 3, 4, 5), (3, 3), stride=(2, 2), pad=(1, 1), adj=(1, 0)),
    _deconv("deconv_gaps", (2, 3, 3, 3), (2, 2), stride=(3, 3), adj=(1, 2)),
    # float64, because MXNet's oneDNN path refuses target_shape.
    _deconv(
        "deconv_target", (2, 3, 4, 5), (3, 3), stride=(2, 2), target_shape=(8, 9), dtype="float64"
    ),
    _deconv(
        "deconv_target_crops",
        (2, 3, 4, 5),
        (4, 4),
        stride=(2, 2),
        target_shape=(7, 10),
        dtype="float64",
    ),
    _deconv("deconv_groups", (2, 4, 4, 4), (3, 3), filters=6, num_group=2, stride=(2, 2)),
    _deconv("deconv_bilinear", (2, 4, 4, 4), (4, 4), num_group=4, stride=(2, 2), pad=(1, 1)),
    _deconv("deconv_dilated", (2, 2, 4, 4), (3, 3), dilate=(2, 2), pad=(1, 1)),
    _deconv("deconv_pointwise", (2, 3, 4, 4), (1, 1)),
    _deconv("deconv_many_images", (18, 2, 3, 3), (3, 3), filters=3, stride=(2, 2), pad=(1, 1)),
    _deconv("deconv_one_axis", (2, 3, 5), (3,), stride=(2,), pad=(1,), adj=(1,)),
)
