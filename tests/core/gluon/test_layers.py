"""Gluon's layers: names and results of MXNet."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import core as mx
from core.errors import UsageError
from core.gluon import nn
from core.gluon.nn import conv_layers
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.layers import CASES, compute


@pytest.mark.parametrize("compiled", [False, True], ids=["arrays", "compiled"])
@pytest.mark.parametrize("case_id", CASES)
def test_layers_match_mxnets(case_id: str, compiled: bool) -> None:
    golden, results = golden_file.case("layers", case_id), compute(mx, case_id, compiled=compiled)
    assert results.keys() == golden.keys()
    for key, array in results.items():
        expected = golden[key]
        if key == "names":
            assert array.tolist() == expected.tolist()
        else:
            # Terms of a gradient cancel, which leaves more rounding error.
            tolerance = 5e-5 if key == "gradient" else None
            assert_close(f"{case_id} {key}", array, expected, tolerance)


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (
            nn.Conv2D(1, 2, padding=1, groups=1, in_channels=3, use_bias=False),
            "Conv2D(3 -> 1, kernel_size=(2, 2), stride=(1, 1), padding=(1, 1), bias=False)",
        ),
        (
            nn.Conv1D(4, 3, dilation=2, groups=2, activation="relu"),
            "Conv1D(None -> 4, kernel_size=(3,), stride=(1,), dilation=(2,), groups=2, "
            "Activation(relu))",
        ),
        (
            nn.MaxPool1D(3, ceil_mode=True),
            "MaxPool1D(size=(3,), stride=(3,), padding=(0,), ceil_mode=True, global_pool=False, "
            "pool_type=max, layout=NCW)",
        ),
        (
            nn.BatchNorm(scale=False),
            "BatchNorm(axis=1, eps=1e-05, momentum=0.9, fix_gamma=True, use_global_stats=False, "
            "in_channels=None)",
        ),
        (nn.GroupNorm(2), "GroupNorm(eps=1e-05, num_groups=2, center=True, scale=True)"),
        (nn.Embedding(3, 4), "Embedding(3 -> 4, float32)"),
        (nn.Dropout(0.5), "Dropout(p = 0.5, axes=())"),
        (nn.LeakyReLU(0.2), "LeakyReLU(0.2)"),
        (nn.HybridLambda("tanh"), "HybridLambda(tanh)"),
        (nn.Lambda(abs), "Lambda(abs)"),
        (nn.Flatten(), "Flatten"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_repr_matches_mxnets(layer: nn.Block, text: str) -> None:
    assert repr(layer) == text


def test_channels_last_changes_the_weights_layout() -> None:
    assert nn.Conv2D(8, 3, layout="NHWC", in_channels=4, groups=2).weight.shape == (8, 3, 3, 2)
    assert nn.Conv2DTranspose(8, 3, layout="NHWC", in_channels=4).weight.shape == (4, 3, 3, 8)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: nn.Conv2D(1, (2, 2, 2)), "kernel_size is (2, 2, 2); expected a number or 2"),
        (lambda: nn.Conv1D(1, 2, layout="NWC"), "Conv1D has layouts NCW, got 'NWC'"),
        (lambda: nn.AvgPool3D(layout="NCHW"), "AvgPool3D has layouts NCDHW, NDHWC"),
        (lambda: nn.ReflectionPad2D((1, 2)), "a number or 8 of them"),
        (lambda: nn.LeakyReLU(-1), "must not be below 0"),
        (lambda: nn.Lambda("no_such"), "no_such is not found"),
        (lambda: nn.HybridLambda("no_such"), "no_such is not found"),
    ],
)
def test_invalid_arguments_are_refused(make: Callable[[], nn.Block], text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(text)):
        make()
    with pytest.raises(ValueError, match="Unrecognized function"):
        nn.Lambda(3)


def test_lambda_layers_call_their_function() -> None:
    x = mx.nd.array([[-1.0, 2.0]])
    expected = np.tanh(x.asnumpy())
    chain = nn.HybridSequential()
    chain.add(nn.HybridLambda("tanh"), nn.HybridLambda(lambda F, value: F.abs(value)))
    for active in (False, True):
        chain.hybridize(active)
        np.testing.assert_allclose(chain(x).asnumpy(), abs(expected), rtol=1e-6)
    np.testing.assert_allclose(nn.Lambda("tanh")(x).asnumpy(), expected, rtol=1e-6)
    assert nn.Lambda(lambda value: value * 2)(x).asnumpy().tolist() == [[-2, 4]]


def test_dropout_of_zero_is_the_identity() -> None:
    with mx.autograd.record():
        assert nn.Dropout(0)(mx.nd.ones((2, 2))).asnumpy().tolist() == [[1, 1], [1, 1]]


def test_batch_norm_stays_in_float32_beside_float16() -> None:
    layer = nn.BatchNorm(in_channels=2)
    layer.cast("float16")
    layer.initialize()
    assert layer.gamma.data().dtype is np.float32
    layer.cast("float64")
    assert layer.gamma.data().dtype is np.float64


class _Signed(conv_layers._Conv):
    """A layer with signs as weights, as public projects derive it from MXNet's inner class."""

    def __init__(self, channels: int, kernel_size: int, layout: str = "NCHW") -> None:
        super().__init__(channels, (kernel_size,) * 2, 1, 0, 1, 1, layout, 0, None, False, "normal")

    def hybrid_forward(self, F, x, weight, bias=None):
        return getattr(F, self._op_name)(x, F.sign(weight), name="fwd", **self._kwargs)


def test_layers_derive_from_mxnets_inner_convolution() -> None:
    layer = _Signed(3, 2)
    layer.initialize()
    x = mx.nd.array(np.random.RandomState(0).rand(2, 4, 5, 5))
    y = layer(x)
    assert layer.weight.shape == (3, 4, 2, 2)
    wanted = mx.nd.Convolution(
        x, layer.weight.data().sign(), kernel=(2, 2), num_filter=3, no_bias=True
    )
    np.testing.assert_array_equal(y.asnumpy(), wanted.asnumpy())
    assert isinstance(nn.Conv2D(1, 1), conv_layers._Conv)
    assert isinstance(nn.Conv1DTranspose(1, 1), conv_layers._Conv)
    transposed = conv_layers._Conv(
        4, (3,), (2,), (1,), 1, 1, "NCW", 2, op_name="Deconvolution", adj=(1,)
    )
    assert transposed.weight.shape == (2, 4, 3)
