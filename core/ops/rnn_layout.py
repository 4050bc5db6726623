"""How the fused RNN lays out its parameter vector and what it keeps for its backward pass."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from ..types import Array, Shape, shape_size

__all__ = ["CellParameters", "LayerReserve", "ReserveLayout", "parameter_size", "split_parameters"]


class CellParameters(NamedTuple):
    """Parameters of one layer in one direction; the rows of all gates are joined.

    The weights are (gates · hidden, inputs) and (gates · hidden, state), the biases
    (gates · hidden,), the projection's weight, if there is one, (state, hidden).
    """

    i2h_weight: Array
    h2h_weight: Array
    i2h_bias: Array
    h2h_bias: Array
    h2r_weight: Array | None = None


def parameter_size(
    layers: int, directions: int, inputs: int, hidden: int, gates: int, projected: int | None = None
) -> int:
    """Return the length of the parameter vector; ``projected`` is that of projected states."""
    state = projected or hidden
    columns = inputs + (layers - 1) * directions * state + layers * (state + 2)
    return directions * (gates * hidden * columns + layers * hidden * (projected or 0))


def split_parameters(
    vector: Array,
    layers: int,
    directions: int,
    inputs: int,
    hidden: int,
    gates: int,
    projected: int | None = None,
) -> list[list[CellParameters]]:
    """Return views of a parameter vector by layer and direction.

    All weights come first and then all biases, each by layer, direction and source (input,
    hidden, projection): cuDNN's canonical layout, which is MXNet's. A projection has no bias.
    """
    rows, state = gates * hidden, projected or hidden
    start = 0

    def take(*shape: int) -> Array:
        nonlocal start
        begin, start = start, start + shape_size(shape)
        return vector[begin:start].reshape(shape)

    widths = [inputs, *[directions * state] * (layers - 1)]
    sides = range(directions)
    weights = [
        [
            (
                take(rows, width),
                take(rows, state),
                None if projected is None else take(projected, hidden),
            )
            for _ in sides
        ]
        for width in widths
    ]
    biases = [[(take(rows), take(rows)) for _ in sides] for _ in widths]
    return [
        [
            CellParameters(i2h, h2h, *biases[layer][side], h2r)
            for side, (i2h, h2h, h2r) in enumerate(cells)
        ]
        for layer, cells in enumerate(weights)
    ]


class LayerReserve(NamedTuple):
    """What a layer keeps: by direction the gates after their activation, and what else the cell
    needs; its output, and its output after dropout with the mask (the last layer has neither)."""

    gates: list[Array]
    kept: list[Array]
    output: Array | None
    dropped: Array | None
    mask: Array | None


@dataclasses.dataclass(frozen=True, slots=True)
class ReserveLayout:
    """The layers' arrays in one vector, the RNN's hidden output.

    Attributes:
        steps, batch, hidden, gates, layers, directions: sizes.
        state: length of a state, which is the layer's output in one direction.
        has_kept: whether cells keep one more array beside the gates.
        has_dropout: whether there is dropout between the layers.
    """

    steps: int
    batch: int
    hidden: int
    state: int
    gates: int
    layers: int
    directions: int
    has_kept: bool
    has_dropout: bool

    def size(self) -> int:
        """Return the length of the vector."""
        cell = (self.gates + self.has_kept) * self.directions * self.hidden
        between = (3 if self.has_dropout else 1) * self.directions * self.state
        return self.steps * self.batch * (cell * self.layers + between * (self.layers - 1))

    def split(self, vector: Array) -> list[LayerReserve]:
        """Return views of the vector by layer."""
        start = 0

        def take(width: int) -> Array:
            nonlocal start
            shape: Shape = (self.steps, self.batch, width)
            begin, start = start, start + shape_size(shape)
            return vector[begin:start].reshape(shape)

        result = []
        for layer in range(self.layers):
            sides, is_last = range(self.directions), layer == self.layers - 1
            gates = [take(self.gates * self.hidden) for _ in sides]
            kept = [take(self.hidden) for _ in sides] if self.has_kept else []
            width = self.directions * self.state
            between = [take(width) for _ in range(3 if self.has_dropout else 1) if not is_last]
            output, dropped, mask = (*between, None, None, None)[:3]
            result.append(LayerReserve(gates, kept, output, dropped, mask))
        return result
