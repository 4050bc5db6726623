"""Layers of ``mx.gluon.contrib.nn``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import core as mx
from core.gluon import nn
from core.gluon.contrib import nn as more


@pytest.mark.parametrize("kind", [more.Concurrent, more.HybridConcurrent])
def test_concurrent_blocks_are_concatenated(kind: Any) -> None:
    net = kind(axis=1, prefix="both_")
    with net.name_scope():
        net.add(nn.Dense(3), more.Identity(), nn.Dense(2))
    net.initialize()
    x = mx.nd.array(np.random.default_rng(0).random((4, 5)))
    parts = [block(x).asnumpy() for block in net]
    np.testing.assert_array_equal(parts[1], x.asnumpy())
    np.testing.assert_array_equal(net(x).asnumpy(), np.concatenate(parts, axis=1))
    if kind is more.HybridConcurrent:
        net.hybridize()
        np.testing.assert_allclose(
            net(x).asnumpy(), np.concatenate(parts, axis=1), rtol=1e-5, atol=1e-6
        )
    assert list(net.collect_params()) == [
        f"both_dense{number}_{part}" for number in (0, 1) for part in ("weight", "bias")
    ]


@pytest.mark.parametrize(
    ("block", "factors", "shape", "text"),
    [
        (more.PixelShuffle1D(3), (3,), (2, 6, 4), "PixelShuffle1D(3)"),
        (more.PixelShuffle2D((2, 3)), (2, 3), (1, 12, 3, 2), "PixelShuffle2D((2, 3))"),
        (more.PixelShuffle2D(2), (2, 2), (2, 4, 2, 2), "PixelShuffle2D((2, 2))"),
        (more.PixelShuffle3D((2, 3, 4)), (2, 3, 4), (1, 48, 2, 1, 3), "PixelShuffle3D((2, 3, 4))"),
    ],
)
@pytest.mark.parametrize("compiled", [False, True])
def test_pixel_shuffle_moves_channels_to_pixels(
    block: Any, factors: tuple[int, ...], shape: tuple[int, ...], text: str, compiled: bool
) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    channels = shape[1] // int(np.prod(factors))
    expected = np.zeros((shape[0], channels, *np.multiply(shape[2:], factors)), np.float32)
    for place in np.ndindex(*expected.shape[1:]):
        channel = place[0]
        for factor, at in zip(factors, place[1:], strict=True):
            channel = channel * factor + at % factor
        inner = tuple(at // factor for factor, at in zip(factors, place[1:], strict=True))
        expected[(slice(None), *place)] = x[(slice(None), channel, *inner)]
    block.hybridize(compiled)
    np.testing.assert_array_equal(block(mx.nd.array(x)).asnumpy(), expected)
    assert repr(block) == text


def test_pixel_shuffle_refuses_the_wrong_number_of_factors() -> None:
    with pytest.raises(AssertionError, match="wrong length 3"):
        more.PixelShuffle2D((1, 2, 3))


def test_embeddings_with_sparse_gradients() -> None:
    layer = more.SparseEmbedding(10, 3)
    layer.initialize()
    trainer = mx.gluon.Trainer(layer.collect_params(), "sgd", {"learning_rate": 1})
    with mx.autograd.record():
        y = layer(mx.nd.array([3, 4, 2, 0, 1]))
    y.backward()
    assert layer.weight.grad().stype == "row_sparse"
    assert layer.weight.grad().asnumpy()[:, 0].tolist() == [1] * 5 + [0] * 5
    before = layer.weight.list_row_sparse_data(mx.nd.arange(10))[0].asnumpy()
    trainer.step(1)
    after = layer.weight.list_row_sparse_data(mx.nd.arange(10))[0].asnumpy()
    np.testing.assert_allclose(before - after, layer.weight.grad().asnumpy(), atol=1e-6)
    assert repr(layer) == "SparseEmbedding(10 -> 3, float32)"


def test_sync_batch_norm_warns_that_devices_are_not_synchronized() -> None:
    with pytest.warns(UserWarning, match="is for 2 devices, but each normalizes its own part"):
        layer = more.SyncBatchNorm(num_devices=2)
    layer.initialize()
    assert layer(mx.nd.ones((2, 3, 4, 4))).shape == (2, 3, 4, 4)
