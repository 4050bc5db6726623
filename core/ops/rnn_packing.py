"""Where each weight and bias lies in the parameter vector of the fused ``RNN`` operator.

All weights come first, layer by layer and direction by direction (input to hidden, then hidden to
hidden, gate by gate), then all biases in the same order: cuDNN's canonical layout, as in MXNet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..types import Shape, shape_size
from .rnn_layout import parameter_size

__all__ = ["GATES", "PackedArray", "input_size_of", "packed_arrays", "packed_size"]

GATES = {
    "rnn_relu": ("",),
    "rnn_tanh": ("",),
    "lstm": ("_i", "_f", "_c", "_o"),
    "gru": ("_r", "_z", "_o"),
}
"""Suffixes of the gates of each mode, in the order in which they are stored."""


class PackedArray(NamedTuple):
    """One gate's weight or bias: its name, shape and span in the parameter vector."""

    name: str
    shape: Shape
    start: int
    stop: int


def packed_arrays(
    mode: str, num_layers: int, num_hidden: int, input_size: int, bidirectional: bool
) -> Iterator[PackedArray]:
    """Yield every array of the parameter vector in its order."""
    directions = ("l", "r") if bidirectional else ("l",)
    start = 0
    for kind in ("weight", "bias"):
        for layer in range(num_layers):
            width = input_size if layer == 0 else num_hidden * len(directions)
            for direction in directions:
                for source, columns in (("i2h", width), ("h2h", num_hidden)):
                    shape = (num_hidden, columns) if kind == "weight" else (num_hidden,)
                    for gate in GATES[mode]:
                        name = f"{direction}{layer}_{source}{gate}_{kind}"
                        stop = start + shape_size(shape)
                        yield PackedArray(name, shape, start, stop)
                        start = stop


def packed_size(
    mode: str, num_layers: int, num_hidden: int, input_size: int, bidirectional: bool
) -> int:
    """Return the length of the parameter vector."""
    directions = 2 if bidirectional else 1
    return parameter_size(num_layers, directions, input_size, num_hidden, len(GATES[mode]))


def input_size_of(
    size: int, mode: str, num_layers: int, num_hidden: int, bidirectional: bool
) -> int:
    """Return the input width that a parameter vector of this length belongs to."""
    without = packed_size(mode, num_layers, num_hidden, 0, bidirectional)
    per_input = len(GATES[mode]) * num_hidden * (2 if bidirectional else 1)
    width, rest = divmod(size - without, per_input)
    if rest or width <= 0:
        raise ValueError(
            f"a vector of {size} elements cannot hold the parameters of {num_layers} {mode} layers "
            f"of {num_hidden} units"
        )
    return width
