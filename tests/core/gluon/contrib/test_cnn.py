"""Deformable convolution layers; the numbers without modulation are those of MXNet 1.9.1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.errors import UsageError
from core.gluon.contrib.cnn import DeformableConvolution, ModulatedDeformableConvolution

WIDE = {
    "kernel_size": 3,
    "padding": 1,
    "strides": 2,
    "activation": "relu",
    "num_deformable_group": 2,
}


def _filled(layer: Any, hybridized: bool) -> tuple[Any, Any]:
    """Return a layer with known parameters, and its input."""
    layer.initialize(mx.init.One())
    if hybridized:
        layer.hybridize()
    x = mx.nd.array(np.linspace(-1, 1, 2 * 4 * 9 * 9).reshape(2, 4, 9, 9))
    x.attach_grad()
    layer(x)
    for place, (_, param) in enumerate(sorted(layer.collect_params().items())):
        param.set_data(mx.nd.array(np.random.RandomState(place).uniform(-0.3, 0.3, param.shape)))
    return layer, x


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize(
    ("options", "output", "x_grad", "offset_grad", "weight_grad"),
    [
        ({}, 34.145, 259.53, -0.28, 36.09),
        (WIDE, 81.566, 172.03, 44.23, -584.45),
        ({"kernel_size": 3, "groups": 2}, 98.77, 290.73, 20.21, -124.71),
    ],
)
def test_outputs_and_gradients_are_mxnets(
    options: dict[str, Any],
    output: float,
    x_grad: float,
    offset_grad: float,
    weight_grad: float,
    hybridized: bool,
) -> None:
    layer, x = _filled(DeformableConvolution(6, **options), hybridized)
    with mx.autograd.record():
        y = layer(x)
    y.backward()
    assert float(y.sum().asscalar()) == pytest.approx(output, abs=2e-3)
    assert float(x.grad.abs().sum().asscalar()) == pytest.approx(x_grad, abs=1e-2)
    for param, wanted in (
        (layer.offset_weight, offset_grad),
        (layer.deformable_conv_weight, weight_grad),
    ):
        assert float(param.grad().sum().asscalar()) == pytest.approx(wanted, abs=2e-2)


def test_names_and_descriptions() -> None:
    layer, _ = _filled(DeformableConvolution(6, prefix="d_", **WIDE), hybridized=False)
    assert repr(layer) == (
        "DeformableConvolution(4 -> 6, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), "
        "Activation(relu))"
    )
    assert {name: param.shape for name, param in layer.collect_params().items()} == {
        "d_offset_weight": (36, 4, 3, 3),
        "d_offset_bias": (36,),
        "d_deformable_conv_weight": (6, 4, 3, 3),
        "d_deformable_conv_bias": (6,),
    }


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("kind", [DeformableConvolution, ModulatedDeformableConvolution])
def test_without_offsets_it_is_a_convolution(kind: Any, hybridized: bool) -> None:
    """Without a weight the offsets are 0; modulated, the points weigh 2 times sigmoid(0), so 1."""
    layer, x = _filled(kind(6, kernel_size=(3, 2), use_bias=False, in_channels=4), hybridized)
    layer.offset_weight.set_data(mx.nd.zeros(layer.offset_weight.shape))
    layer.offset_bias.set_data(mx.nd.zeros(layer.offset_bias.shape))
    plain = mx.nd.Convolution(
        x, layer.deformable_conv_weight.data(), kernel=(3, 2), num_filter=6, no_bias=True
    )
    np.testing.assert_allclose(layer(x).asnumpy(), plain.asnumpy(), rtol=1e-4, atol=1e-5)


def test_modulation_weighs_every_point() -> None:
    layer, x = _filled(ModulatedDeformableConvolution(6, use_bias=False), hybridized=False)
    layer.offset_weight.set_data(mx.nd.zeros(layer.offset_weight.shape))
    layer.offset_bias.set_data(mx.nd.array([0, 0, np.log(3)]))  # twice its sigmoid is 1.5
    plain = mx.nd.Convolution(
        x, layer.deformable_conv_weight.data(), kernel=(1, 1), num_filter=6, no_bias=True
    )
    np.testing.assert_allclose(layer(x).asnumpy(), 1.5 * plain.asnumpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options", [{"layout": "NHWC"}, {"adj": (1, 1)}, {"op_name": "Convolution"}]
)
def test_what_no_operator_computes_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="is computed by DeformableConvolution"):
        DeformableConvolution(6, **options)
