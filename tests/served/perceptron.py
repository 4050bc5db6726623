"""The perceptron used in tests of hosts: symbol, shapes and examples."""

from __future__ import annotations

from typing import Any

import numpy as np

import core as mx
from app.domain.module import InputDesc

__all__ = [
    "BATCH",
    "CLASSES",
    "EXAMPLES",
    "FEATURES",
    "data_shape",
    "label_shape",
    "perceptron",
    "toy_examples",
]

EXAMPLES, FEATURES, CLASSES, BATCH = 50, 6, 3, 8


def perceptron(dropout: float = 0.0, batch_norm: bool = False) -> mx.sym.Symbol:
    """Return a perceptron of one hidden layer with a softmax loss."""
    net = mx.sym.Variable("data")
    net = mx.sym.FullyConnected(net, num_hidden=5, name="fc1")
    if batch_norm:
        net = mx.sym.BatchNorm(net, name="bn", fix_gamma=False)
    net = mx.sym.Activation(net, act_type="tanh", name="activation0")
    if dropout:
        net = mx.sym.Dropout(net, p=dropout)
    net = mx.sym.FullyConnected(net, num_hidden=CLASSES, name="fc2")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def data_shape(batch: int = BATCH, features: int = FEATURES, **changes: Any) -> InputDesc:
    """Return the input description of a batch's data."""
    return InputDesc(name="data", shape=(batch, features), **changes)


def label_shape(batch: int = BATCH) -> InputDesc:
    """Return the input description of a batch's labels."""
    return InputDesc(name="softmax_label", shape=(batch,))


def toy_examples() -> dict[str, np.ndarray]:
    """Return examples of three classes that the perceptron can learn."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, CLASSES, EXAMPLES)
    data = rng.normal(size=(EXAMPLES, FEATURES)).astype(np.float32)
    data[np.arange(EXAMPLES), labels] += 2.5
    return {"data": data, "softmax_label": labels.astype(np.uint8)}
