"""Networks for benchmarks, built with the engine's symbols."""

from __future__ import annotations

from collections.abc import Callable

import core as mx
from app.cli.bench.resnet import Symbol, conv_norm, residual_unit, resnet18, resnet50

__all__ = ["MODELS", "Symbol", "lenet", "lstm_language_model", "mlp", "resnet20"]


def mlp() -> Symbol:
    """784-128-64-10 with ReLU."""
    x: Symbol = mx.sym.Variable("data")
    for i, width in enumerate((128, 64)):
        x = mx.sym.FullyConnected(x, num_hidden=width, name=f"fc{i}")
        x = mx.sym.Activation(x, act_type="relu", name=f"relu{i}")
    x = mx.sym.FullyConnected(x, num_hidden=10, name="fc2")
    x = mx.sym.SoftmaxOutput(x, name="softmax")
    return x


def lenet() -> Symbol:
    """LeNet with tanh, as in MXNet's examples."""
    x: Symbol = mx.sym.Variable("data")
    for i, filters in enumerate((20, 50), start=1):
        x = mx.sym.Convolution(x, kernel=(5, 5), num_filter=filters, name=f"c{i}")
        x = mx.sym.Activation(x, act_type="tanh", name=f"t{i}")
        x = mx.sym.Pooling(x, pool_type="max", kernel=(2, 2), stride=(2, 2), name=f"p{i}")
    x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=500, name="f1")
    x = mx.sym.Activation(x, act_type="tanh", name="t3")
    x = mx.sym.FullyConnected(x, num_hidden=10, name="f2")
    x = mx.sym.SoftmaxOutput(x, name="softmax")
    return x


def resnet20() -> Symbol:
    """ResNet-20 for 32 by 32 images (He et al. 2015), batch normalization after convolution."""
    x: Symbol = conv_norm(mx.sym.Variable("data"), 3, 1, 16, "0")
    x = mx.sym.Activation(x, act_type="relu", name="r0")
    for stage, filters in enumerate((16, 32, 64)):
        for unit in range(3):
            halves = stage > 0 and unit == 0
            x = residual_unit(x, filters, 2 if halves else 1, f"s{stage}u{unit}", project=halves)
    x = mx.sym.Pooling(x, global_pool=True, kernel=(8, 8), pool_type="avg", name="gp")
    x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=10, name="fc")
    x = mx.sym.SoftmaxOutput(x, name="softmax")
    return x


def lstm_language_model(
    length: int, vocabulary: int = 10000, hidden: int = 200, *, is_unrolled: bool = False
) -> Symbol:
    """Word language model: embedding, two LSTM layers, fused or unrolled, softmax over the
    vocabulary."""
    x: Symbol = mx.sym.Embedding(
        mx.sym.Variable("data"), input_dim=vocabulary, output_dim=hidden, name="embed"
    )
    x = _unrolled_lstm(x, length, hidden) if is_unrolled else _fused_lstm(x, hidden)
    x = mx.sym.FullyConnected(
        mx.sym.Reshape(x, shape=(-1, hidden)), num_hidden=vocabulary, name="pred"
    )
    label = mx.sym.Reshape(mx.sym.Variable("softmax_label"), shape=(-1,))
    x = mx.sym.SoftmaxOutput(x, label, name="softmax")
    return x


def _fused_lstm(x: Symbol, hidden: int) -> Symbol:
    x = mx.sym.RNN(
        mx.sym.SwapAxis(x, dim1=0, dim2=1),  # RNN takes time first, batch second
        mx.sym.Variable("lstm_parameters", init=mx.init.Uniform(0.1)),
        mx.sym.zeros(shape=(2, 0, hidden)),  # 0: the batch size, which is inferred
        mx.sym.zeros(shape=(2, 0, hidden)),
        state_size=hidden,
        num_layers=2,
        mode="lstm",
        name="lstm",
    )
    x = mx.sym.SwapAxis(x, dim1=0, dim2=1)
    return x


def _unrolled_lstm(x: Symbol, length: int, hidden: int) -> Symbol:
    stack = mx.rnn.SequentialRNNCell()
    for layer in range(2):
        stack.add(mx.rnn.LSTMCell(hidden, prefix=f"lstm{layer}_"))
    x, _ = stack.unroll(length, x, merge_outputs=True)
    return x


MODELS: dict[str, tuple[Callable[[], Symbol], tuple[int, ...]]] = {
    "mlp": (mlp, (784,)),
    "lenet": (lenet, (1, 28, 28)),
    "resnet18": (resnet18, (3, 224, 224)),
    "resnet20": (resnet20, (3, 32, 32)),
    "resnet50": (resnet50, (3, 224, 224)),
}
"""Network and shape of one example."""
