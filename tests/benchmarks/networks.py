"""Networks that neither the bench nor the model zoo has, for compare_inference.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import core as mx

__all__ = ["NETWORKS"]

Shape = tuple[int, ...]


def _convolution(x: Any, filters: int, size: int = 3, **attributes: Any) -> Any:
    """A convolution that keeps the size but for its stride, batch normalization and ReLU."""
    reach = attributes.get("dilate", (1, 1))[0] * (size // 2)
    x = mx.sym.Convolution(
        x, kernel=(size, size), num_filter=filters, pad=(reach, reach), no_bias=True, **attributes
    )
    return mx.sym.Activation(mx.sym.BatchNorm(x, fix_gamma=False), act_type="relu")


def _scores(x: Any, classes: int) -> Any:
    x = mx.sym.Pooling(x, global_pool=True, kernel=(1, 1), pool_type="avg")
    return mx.sym.softmax(mx.sym.FullyConnected(x, num_hidden=classes))


def resnext() -> Any:
    """Two stages of ResNeXt's units with 32 groups (Xie et al. 2017)."""
    x = _convolution(mx.sym.Variable("data"), 64, 7, stride=(2, 2))
    x = mx.sym.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max")
    for width, units in ((128, 3), (256, 4)):
        for unit in range(units):
            stride = (2, 2) if unit == 0 and width > 128 else (1, 1)
            y = _convolution(x, width, 1)
            y = _convolution(y, width, 3, num_group=32, stride=stride)
            y = mx.sym.Convolution(y, kernel=(1, 1), num_filter=2 * width)
            if unit == 0:
                x = mx.sym.Convolution(x, kernel=(1, 1), num_filter=2 * width, stride=stride)
            x = mx.sym.Activation(x + y, act_type="relu")
    return _scores(x, 1000)


def dilated() -> Any:
    """Semantic segmentation with dilated convolutions (Yu and Koltun 2016)."""
    x = mx.sym.Variable("data")
    for filters in (32, 64):
        x = _convolution(x, filters, stride=(2, 2))
    for dilation in (1, 1, 2, 4, 8, 16, 1):
        x = _convolution(x, 64, dilate=(dilation, dilation))
    return mx.sym.softmax(mx.sym.Convolution(x, kernel=(1, 1), num_filter=21), axis=1)


def unet() -> Any:
    """U-Net of three levels (Ronneberger et al. 2015)."""
    x, kept = mx.sym.Variable("data"), []
    for filters in (16, 32, 64):
        x = _convolution(_convolution(x, filters), filters)
        kept.append(x)
        x = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")
    x = _convolution(x, 128)
    for skipped, filters in zip(reversed(kept), (64, 32, 16), strict=True):
        x = mx.sym.Deconvolution(x, kernel=(2, 2), stride=(2, 2), num_filter=filters)
        x = _convolution(mx.sym.Concat(skipped, x), filters)
    return mx.sym.sigmoid(mx.sym.Convolution(x, kernel=(1, 1), num_filter=1))


def detector() -> Any:
    """Backbone and heads of a single-shot detector (Liu et al. 2016), without its boxes."""
    x, heads = mx.sym.Variable("data"), []
    for level, filters in enumerate((32, 64, 128, 256, 256, 256)):
        x = _convolution(_convolution(x, filters), filters)
        x = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")
        if level > 2:
            for channels in (84, 16):
                head = mx.sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=channels)
                heads.append(mx.sym.Flatten(mx.sym.transpose(head, axes=(0, 2, 3, 1))))
    return mx.sym.Concat(*heads)


def transformer(width: int = 256, heads: int = 4, length: int = 32) -> Any:
    """Four layers of a transformer's encoder (Vaswani et al. 2017), on 32 vectors."""
    x = mx.sym.Variable("data")
    split = (0, 0, -4, heads, -1)
    for _ in range(4):
        rows = mx.sym.FullyConnected(x, num_hidden=3 * width, flatten=False)
        parts = [
            mx.sym.Reshape(
                mx.sym.transpose(mx.sym.Reshape(one, shape=split), axes=(0, 2, 1, 3)),
                shape=(-3, 0, 0),
            )
            for one in mx.sym.split(rows, num_outputs=3, axis=2)
        ]
        weights = mx.sym.batch_dot(parts[0], parts[1], transpose_b=True) * (heads / width) ** 0.5
        y = mx.sym.batch_dot(mx.sym.softmax(weights), parts[2])
        y = mx.sym.transpose(mx.sym.Reshape(y, shape=(-4, -1, heads, 0, 0)), axes=(0, 2, 1, 3))
        y = mx.sym.FullyConnected(
            mx.sym.Reshape(y, shape=(0, 0, -3)), num_hidden=width, flatten=False
        )
        x = _normalized(x + y)
        y = mx.sym.FullyConnected(x, num_hidden=4 * width, flatten=False)
        y = mx.sym.LeakyReLU(y, act_type="gelu")
        x = _normalized(x + mx.sym.FullyConnected(y, num_hidden=width, flatten=False))
    return x


def _normalized(x: Any) -> Any:
    return mx.sym.LayerNorm(x)


def lstm() -> Any:
    """Two LSTM layers over 30 words and scores of the last state."""
    x = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=1000, output_dim=128)
    stack = mx.rnn.FusedRNNCell(128, num_layers=2, mode="lstm", prefix="lstm_")
    x, _ = stack.unroll(30, mx.sym.SwapAxis(x, dim1=0, dim2=1), layout="TNC", merge_outputs=True)
    return mx.sym.softmax(mx.sym.FullyConnected(mx.sym.SequenceLast(x), num_hidden=10))


def text_cnn() -> Any:
    """Convolutions of three widths over words (Kim 2014)."""
    words = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=1000, output_dim=128)
    image = mx.sym.expand_dims(words, axis=1)
    pooled = []
    for width in (3, 4, 5):
        x = mx.sym.Convolution(image, kernel=(width, 128), num_filter=100)
        x = mx.sym.Activation(x, act_type="relu")
        pooled.append(mx.sym.Pooling(x, kernel=(1, 1), global_pool=True, pool_type="max"))
    return mx.sym.softmax(mx.sym.FullyConnected(mx.sym.Concat(*pooled), num_hidden=2))


NETWORKS: dict[str, tuple[Callable[[], Any], Shape]] = {
    "resnext": (resnext, (3, 224, 224)),
    "dilated": (dilated, (3, 256, 256)),
    "unet": (unet, (3, 128, 128)),
    "detector": (detector, (3, 256, 256)),
    "transformer": (transformer, (32, 256)),
    "lstm": (lstm, (30,)),
    "text_cnn": (text_cnn, (50,)),
}
"""Network and shape of one example; those of one axis take words."""
