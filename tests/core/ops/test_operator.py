"""Facts that operators declare, compared with what their shape inference says."""

from __future__ import annotations

from typing import Any

import pytest

from core.capabilities.layers import LayerData
from oracle.apply import make


@pytest.mark.parametrize(
    ("op", "attributes", "data"),
    [
        ("Convolution", {"kernel": (3,), "num_filter": 4}, (2, 6, 9)),
        ("Convolution", {"kernel": (3, 2), "num_filter": 4, "num_group": 2}, (2, 6, 9, 8)),
        ("Convolution_v1", {"kernel": (3, 3), "num_filter": 4}, (2, 5, 9, 9)),
        ("FullyConnected", {"num_hidden": 3}, (2, 7)),
        ("_contrib_quantized_fully_connected", {"num_hidden": 3, "no_bias": True}, (2, 7)),
        (
            "_contrib_quantized_conv",
            {"kernel": (3, 3), "num_filter": 4, "num_group": 2, "no_bias": True},
            (2, 6, 9, 9),
        ),
    ],
    ids=["line", "groups", "old", "dense", "dense on bytes", "convolution on bytes"],
)
def test_weight_determines_what_it_was_inferred_from(
    op: str, attributes: dict[str, Any], data: tuple[int, ...]
) -> None:
    operator = make(op, attributes)
    unknown = [None] * (len(operator.input_names()) - 1)
    outputs = [None] * len(operator.output_names())
    weight = operator.infer_shape([data, *unknown], outputs)[0][1]
    assert weight is not None
    assert operator.data_from_weight(weight) == LayerData(data[1], len(data) - 2)


def test_weight_does_not_determine_data_with_channels_last() -> None:
    layer = make("Convolution", {"kernel": (3, 3), "num_filter": 4, "layout": "NHWC"})
    assert layer.data_from_weight((4, 3, 3, 6)) is None


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("Activation", {"act_type": "relu"}),
        ("BatchNorm", {}),
        ("BlockGrad", {}),
        ("Cast", {"dtype": "float16"}),
        ("Dropout", {}),
        ("LeakyReLU", {}),
        ("_contrib_BatchNormWithReLU", {}),
        ("_contrib_quantize_v2", {}),
        ("_contrib_quantized_act", {"act_type": "relu"}),
        ("_copy", {}),
        ("_rminus_scalar", {"scalar": 2}),
        ("broadcast_mul", {}),
        ("sqrt", {}),
    ],
)
def test_features_are_kept_in_the_shape_of_the_data(op: str, attributes: dict[str, Any]) -> None:
    operator = make(op, attributes)
    assert operator.keeps_features()
    inputs: list[Any] = [(2, 3, 4, 5)] + [None] * (len(operator.input_names()) - 1)
    if op == "broadcast_mul":
        inputs[1] = (1, 3, 1, 1)
    outputs = operator.infer_shape(inputs, [None] * len(operator.output_names()))[1]
    assert outputs[0] == (2, 3, 4, 5)


@pytest.mark.parametrize("op", ["Flatten", "_contrib_quantized_flatten"])
def test_features_are_kept_by_joining_them(op: str) -> None:
    assert make(op, {}).keeps_features()


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("Convolution", {"kernel": (1, 1), "num_filter": 2}),
        ("FullyConnected", {"num_hidden": 2}),
        ("Reshape", {"shape": (0, -1)}),
        ("mean", {}),
        ("transpose", {}),
    ],
)
def test_features_are_not_kept(op: str, attributes: dict[str, Any]) -> None:
    assert not make(op, attributes).keeps_features()
