"""Networks and their initial parameters, for MXNet and our engine alike (``mx`` is either)."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

__all__ = [
    "japanese_vowels",
    "lenet",
    "make_parameters",
    "mlp",
    "residual",
    "resnet20",
    "word_model",
]

Shape = tuple[int, ...]


def mlp(mx: Any, widths: tuple[int, ...] = (16, 8), classes: int = 4) -> Any:
    """Return a perceptron with rectified layers; data (N, features)."""
    x = mx.sym.Variable("data")
    for i, width in enumerate(widths):
        x = mx.sym.FullyConnected(x, num_hidden=width, name=f"fc{i}")
        x = mx.sym.Activation(x, act_type="relu", name=f"relu{i}")
    x = mx.sym.FullyConnected(x, num_hidden=classes, name=f"fc{len(widths)}")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def lenet(mx: Any) -> Any:
    """Return LeNet; data (N, 1, 28, 28), 10 classes."""
    s = mx.sym
    x = s.Variable("data")
    x = s.Convolution(x, kernel=(5, 5), num_filter=20, name="c1")
    x = s.Activation(x, act_type="tanh", name="t1")
    x = s.Pooling(x, pool_type="max", kernel=(2, 2), stride=(2, 2), name="p1")
    x = s.Convolution(x, kernel=(5, 5), num_filter=50, name="c2")
    x = s.Activation(x, act_type="tanh", name="t2")
    x = s.Pooling(x, pool_type="max", kernel=(2, 2), stride=(2, 2), name="p2")
    x = s.FullyConnected(s.Flatten(x), num_hidden=500, name="f1")
    x = s.Activation(x, act_type="tanh", name="t3")
    return s.SoftmaxOutput(s.FullyConnected(x, num_hidden=10, name="f2"), name="softmax")


def residual(mx: Any, units: tuple[int, ...], filters: tuple[int, ...], classes: int) -> Any:
    """Return a residual network for small images, without bottlenecks (He et al. 2015, §4.2).

    ``filters`` has the stem's count first, then one for each stage of ``units``.
    """
    x = mx.sym.Variable("data")
    x = _convolution(mx, x, 3, 1, filters[0], "c0")
    x = mx.sym.BatchNorm(x, fix_gamma=False, eps=1e-5, name="b0")
    x = mx.sym.Activation(x, act_type="relu", name="r0")
    for stage, (count, width) in enumerate(zip(units, filters[1:], strict=True)):
        for unit in range(count):
            stride = 2 if stage > 0 and unit == 0 else 1
            same = unit > 0 or (stage == 0 and width == filters[0])
            x = _residual_unit(mx, x, width, stride, same, f"s{stage}u{unit}")
    x = mx.sym.Pooling(x, global_pool=True, kernel=(7, 7), pool_type="avg", name="gp")
    x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=classes, name="fc")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def resnet20(mx: Any) -> Any:
    """Return ResNet-20; data (N, 3, 32, 32), 10 classes."""
    return residual(mx, (3, 3, 3), (16, 16, 32, 64), 10)


def word_model(mx: Any, steps: int, vocabulary: int = 30, hidden: int = 8, layers: int = 2) -> Any:
    """Return a word language model with the fused LSTM; data and softmax_label (N, steps)."""
    s = mx.sym
    x = s.Embedding(s.Variable("data"), input_dim=vocabulary, output_dim=hidden, name="embed")
    x = s.RNN(
        data=s.SwapAxis(x, dim1=0, dim2=1, name="time_first"),
        parameters=s.Variable(
            "lstm_parameters", init=mx.init.FusedRNN(None, hidden, layers, "lstm")
        ),
        state=s.zeros(shape=(layers, 0, hidden), name="lstm_begin_state"),
        state_cell=s.zeros(shape=(layers, 0, hidden), name="lstm_begin_cell"),
        state_size=hidden,
        num_layers=layers,
        mode="lstm",
        name="lstm",
    )
    x = s.SwapAxis(x, dim1=0, dim2=1, name="batch_first")
    x = s.FullyConnected(s.Reshape(x, shape=(-1, hidden)), num_hidden=vocabulary, name="pred")
    label = s.Reshape(s.Variable("softmax_label"), shape=(-1,))
    return s.SoftmaxOutput(x, label, name="softmax")


def japanese_vowels(mx: Any, steps: int, hidden: int = 64) -> Any:
    """Return a speaker classifier: data (N, steps, 12), lengths (N,), 9 speakers."""
    s = mx.sym
    frames = s.Reshape(s.Variable("data"), shape=(-1, steps, 12), name="frames")
    x = s.RNN(
        data=s.SwapAxis(frames, dim1=0, dim2=1, name="time_first"),
        parameters=s.Variable("gru_parameters", init=mx.init.FusedRNN(None, hidden, 1, "gru")),
        state=s.zeros(shape=(1, 0, hidden), name="gru_begin_state"),
        state_size=hidden,
        num_layers=1,
        mode="gru",
        name="gru",
    )
    x = s.SequenceLast(x, s.Variable("lengths"), use_sequence_length=True, name="last")
    return s.SoftmaxOutput(s.FullyConnected(x, num_hidden=9, name="fc"), name="softmax")


def make_parameters(shapes: Mapping[str, Shape], seed: int = 0) -> dict[str, np.ndarray]:
    """Return initial parameters and auxiliary states; each depends on its name only.

    Weights are normal with variance 2 / fan-in; the rest is close to the values of a trained net.
    """
    return {name: _make_parameter(name, shape, seed) for name, shape in shapes.items()}


def _make_parameter(name: str, shape: Shape, seed: int) -> np.ndarray:
    random = np.random.RandomState(zlib.crc32(f"{name}/{seed}".encode()))
    for ending, make in _STARTS.items():
        if name.endswith(ending):
            return make(random, shape).astype("float32")
    raise ValueError(f"no start for {name!r}")


def _scaled_normal(random: np.random.RandomState, shape: Shape) -> np.ndarray:
    fan_in = int(np.prod(shape[1:]))
    return random.normal(scale=np.sqrt(2.0 / fan_in), size=shape)


_STARTS: dict[str, Callable[[np.random.RandomState, Shape], np.ndarray]] = {
    "_weight": _scaled_normal,
    "_parameters": lambda random, shape: random.uniform(-0.3, 0.3, size=shape),
    "_bias": lambda random, shape: random.normal(scale=0.1, size=shape),
    "_gamma": lambda random, shape: random.uniform(0.8, 1.2, size=shape),
    "_beta": lambda random, shape: random.normal(scale=0.1, size=shape),
    "_moving_mean": lambda random, shape: random.normal(scale=0.1, size=shape),
    "_moving_var": lambda random, shape: random.uniform(0.5, 1.5, size=shape),
}


def _convolution(mx: Any, x: Any, size: int, stride: int, count: int, name: str) -> Any:
    return mx.sym.Convolution(
        x,
        kernel=(size, size),
        stride=(stride, stride),
        pad=(size // 2, size // 2),
        num_filter=count,
        no_bias=True,
        name=name,
    )


def _norm(mx: Any, x: Any, name: str) -> Any:
    return mx.sym.BatchNorm(x, fix_gamma=False, eps=1e-5, momentum=0.9, name=name)


def _residual_unit(mx: Any, x: Any, width: int, stride: int, same: bool, name: str) -> Any:
    y = _norm(mx, _convolution(mx, x, 3, stride, width, f"{name}_c1"), f"{name}_b1")
    y = mx.sym.Activation(y, act_type="relu", name=f"{name}_r1")
    y = _norm(mx, _convolution(mx, y, 3, 1, width, f"{name}_c2"), f"{name}_b2")
    if not same:
        x = _norm(mx, _convolution(mx, x, 1, stride, width, f"{name}_sc"), f"{name}_sb")
    return mx.sym.Activation(y + x, act_type="relu", name=f"{name}_out")
