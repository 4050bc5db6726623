"""Small models as third parties publish them, with unusual names of inputs and labels."""

from __future__ import annotations

from pathlib import Path

import core as mx

__all__ = ["CLASSES", "HIDDEN", "STEPS", "detector", "reader", "save"]

CLASSES, HIDDEN, STEPS = 5, 3, 4


def reader() -> mx.sym.Symbol:
    """Return a net that reads letters: convolution, recurrent cell, CTC; time goes first.

    Its first states are inputs, its label is called ``label``, and its scores have a row for each
    step of each example.
    """
    x = mx.sym.Variable("data")
    x = mx.sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=2, name="conv")
    x = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")
    steps = mx.sym.SliceChannel(x, num_outputs=STEPS, axis=2, squeeze_axis=True)
    h, c = mx.sym.Variable("l0_init_h"), mx.sym.Variable("l0_init_c")
    of_input = [mx.sym.Variable("l0_i2h_weight"), mx.sym.Variable("l0_i2h_bias")]
    of_state = [mx.sym.Variable("l0_h2h_weight"), mx.sym.Variable("l0_h2h_bias")]
    outputs = []
    for step in range(STEPS):
        gates = mx.sym.FullyConnected(
            steps[step], *of_input, num_hidden=4 * HIDDEN
        ) + mx.sym.FullyConnected(h, *of_state, num_hidden=4 * HIDDEN)
        parts = mx.sym.SliceChannel(gates, num_outputs=4)
        c = mx.sym.sigmoid(parts[0]) * c + mx.sym.sigmoid(parts[1]) * mx.sym.tanh(parts[2])
        h = mx.sym.sigmoid(parts[3]) * mx.sym.tanh(c)
        outputs.append(h)
    scores = mx.sym.FullyConnected(
        mx.sym.Concat(*outputs, dim=0), num_hidden=CLASSES, name="scores"
    )
    by_step = mx.sym.Reshape(scores, shape=(-4, STEPS, -1, 0))
    loss = mx.sym.make_loss(mx.sym.CTCLoss(by_step, mx.sym.Variable("label")), name="loss")
    return mx.sym.Group([mx.sym.BlockGrad(mx.sym.softmax(scores), name="letters"), loss])


def detector() -> mx.sym.Symbol:
    """Return a net with an unusual label name, whose input size follows from its parameters."""
    x = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=4, name="conv")
    x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=2, name="fc")
    return mx.sym.SoftmaxOutput(x, mx.sym.Variable("label"), name="softmax")


def save(folder: Path, symbol: mx.sym.Symbol, **shapes: tuple[int, ...]) -> list[Path]:
    """Write a checkpoint with random parameters as MXNet does; return its files.

    Args:
        folder: the folder to write to.
        symbol: the graph.
        shapes: the shapes of all inputs, including labels and states.
    """
    module = mx.mod.Module(symbol, data_names=list(shapes), label_names=None)
    module.bind(list(shapes.items()), for_training=False)
    mx.random.seed(3)
    module.init_params(mx.init.Uniform(0.5))
    module.save_checkpoint(str(folder / "net"), 2)
    return [folder / "net-symbol.json", folder / "net-0002.params"]
