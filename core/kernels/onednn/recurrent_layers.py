"""The layers of a fused recurrent network in oneDNN's form: sizes and primitives."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...capabilities.layers import Rnn
from ...types import Shape
from ..kernel import KernelRequest
from .constants import Algorithm, Direction, Propagation
from .kernel import forward_propagation
from .memory import MemoryDesc, plain, strided
from .primitive import Primitive

__all__ = ["Layer", "make_layers"]

_OVERWRITE_GRADIENTS = 1
"""``dnnl_rnn_flags_diff_weights_overwrite``."""


class Cell(NamedTuple):
    """A mode in oneDNN's terms.

    Attributes:
        kind: kind of the primitive.
        head: arguments of its constructor between propagation and direction.
        tail: arguments after the flags.
        gates: for each of oneDNN's gates, the operator's gate.
        biases: for each of oneDNN's biases, the gates of the input bias and of the hidden bias that
            it sums; None for none.
        has_memory: whether the cell has a second state.
    """

    kind: str
    head: tuple[Any, ...]
    tail: tuple[Any, ...]
    gates: tuple[int, ...]
    biases: tuple[tuple[int | None, int | None], ...]
    has_memory: bool = False

    def with_gates_at(self, order: tuple[int, ...]) -> Cell:
        """Return the cell for parameters whose gates have this order."""

        def place(gate: int | None) -> int | None:
            return None if gate is None else order[gate]

        return self._replace(
            gates=tuple(order[gate] for gate in self.gates),
            biases=tuple((place(one), place(other)) for one, other in self.biases),
        )


# MXNet has cuDNN's order of gates: for LSTM input, forget, memory and output, as oneDNN; for GRU
# reset, update and candidate, where oneDNN has the update gate first. "lbr" is linear before reset:
# the reset gate multiplies after the product with the state, so the candidate has two biases.
CELLS = {
    "lstm": Cell("lstm", (), (), (0, 1, 2, 3), ((0, 0), (1, 1), (2, 2), (3, 3)), has_memory=True),
    "gru": Cell("lbr_gru", (), (), (1, 0, 2), ((1, 1), (0, 0), (2, None), (None, 2))),
    "gru_reset_first": Cell("gru", (), (), (1, 0, 2), ((1, 1), (0, 0), (2, 2))),
    "rnn_relu": Cell("vanilla_rnn", (Algorithm.ELTWISE_RELU,), (0.0, 0.0), (0,), ((0, 0),)),
    "rnn_tanh": Cell("vanilla_rnn", (Algorithm.ELTWISE_TANH,), (0.0, 0.0), (0,), ((0, 0),)),
}


class Layer(NamedTuple):
    """Sizes and primitives of one layer."""

    cell: Cell
    steps: int
    batch: int
    inputs: int
    hidden: int
    directions: int
    shows_states: bool
    forward: Primitive
    backward: Primitive | None

    @property
    def states(self) -> Shape:
        """Shape of a state in oneDNN's form."""
        return (1, self.directions, self.batch, self.hidden)

    @property
    def output(self) -> Shape:
        """Shape of the layer's output."""
        return (self.steps, self.batch, self.directions * self.hidden)

    @property
    def data(self) -> Shape:
        """Shape of the layer's input."""
        return (self.steps, self.batch, self.inputs)

    def weights(self, columns: int) -> Shape:
        """Return the shape of a weight in oneDNN's forward pass."""
        return (1, self.directions, columns, len(self.cell.gates), self.hidden)

    @property
    def bias(self) -> Shape:
        """Shape of the bias."""
        return (1, self.directions, len(self.cell.biases), self.hidden)


def make_layers(
    request: KernelRequest[object], rnn: Rnn, order: tuple[int, ...] | None = None
) -> list[Layer]:
    """Make the primitives of all layers; raise KernelUnavailable if one cannot be made.

    Args:
        request: the step.
        rnn: the network as the operator ``RNN`` describes it.
        order: the place of each of its gates in the rows of the weights; None for its own order.
    """
    data = request.inputs[0]
    assert data is not None
    steps, batch, inputs = data.shape
    cell, directions = CELLS[rnn.mode], rnn.directions
    if order is not None:
        cell = cell.with_gates_at(order)
    layers = []
    for _ in range(rnn.num_layers):
        sizes = (cell, steps, batch, inputs, rnn.state_size, directions)
        primitives = _primitives(request, rnn.state_outputs, *sizes)
        layers.append(Layer(*sizes, rnn.state_outputs, *primitives))
        inputs = directions * rnn.state_size
    return layers


def _primitives(
    request: KernelRequest[object],
    shows_states: bool,
    cell: Cell,
    steps: int,
    batch: int,
    inputs: int,
    hidden: int,
    directions: int,
) -> tuple[Primitive, Primitive | None]:
    gates = len(cell.gates)
    states = (plain((1, directions, batch, hidden)),) * (1 + cell.has_memory)
    last = states if shows_states else (None,) * len(states)
    data, out = plain((steps, batch, inputs)), plain((steps, batch, directions * hidden))
    bias = plain((1, directions, len(cell.biases), hidden))
    unused = (None, None) if cell.has_memory else ()  # weights of peepholes and of a projection
    direction = Direction.BOTH_CONCATENATED if directions == 2 else Direction.FORWARDS

    def weights(columns: int) -> tuple[MemoryDesc, MemoryDesc]:
        # What oneDNN calls ldigo and ldgoi. It takes plain weights in the first order only in the
        # forward pass, and in the second only in the backward pass.
        shape = (1, directions, columns, gates, hidden)
        size = columns * gates * hidden
        return plain(shape), strided(shape, (size * directions, size, 1, hidden * columns, columns))

    (i2h, i2h_rows), (h2h, h2h_rows) = weights(inputs), weights(hidden)
    forward = Primitive.of(
        f"{cell.kind}_forward",
        forward_propagation(request),
        *cell.head,
        direction,
        *(data, *states, i2h, h2h, *unused, bias, out, *last),
        0,
        *cell.tail,
    )
    if not request.is_train:
        return forward, None
    backward = Primitive.of(
        f"{cell.kind}_backward",
        Propagation.BACKWARD,
        *cell.head,
        direction,
        *(data, *states, i2h_rows, h2h_rows, *unused, bias, out, *last),
        *(data, *states, i2h, h2h, *unused, bias, out, *last),
        _OVERWRITE_GRADIENTS,
        *cell.tail,
        forward,
    )
    return forward, backward
