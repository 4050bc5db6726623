"""The two forms of recurrent networks: ``RNN``, and a plan's layer with separate parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..capabilities.fused import Recurrent
from ..capabilities.layers import CellParameters, Rnn
from ..types import Array

__all__ = ["Apart", "ConcatInPlace", "Form"]

Parameters = Sequence[Sequence[CellParameters]]
"""Weights and biases of each layer and direction."""


class Form(Protocol):
    """The positions of data, parameters and states among an operator's inputs, or their gradients.

    Attributes:
        rnn: the network as ``RNN`` describes it.
        order: the place of each of its gates in the weights; None for its own order.
        visible_outputs: number of outputs before the reserve for the backward pass.
    """

    rnn: Rnn
    order: tuple[int, ...] | None
    visible_outputs: int

    def parameters(self, inputs: Sequence[Array | None], data: Array) -> Parameters | None:
        """Return views of the parameters; None if they are absent."""
        ...

    def states(self, inputs: Sequence[Array | None]) -> list[Array | None]:
        """Return the states, each (layers · directions, batch, hidden)."""
        ...

    def last_states(self, outputs: Sequence[Array | None]) -> list[Array | None]:
        """Return the states after the last step, likewise; empty if the operator does not output
        them."""
        ...

    def parameter_inputs(self, count: int) -> range:
        """Return the positions of the parameters among this many inputs."""
        ...


class ConcatInPlace:
    """The form of ``RNN``: data, the vector of all parameters, states."""

    def __init__(self, operator: Rnn) -> None:
        self.rnn = operator
        self.order: tuple[int, ...] | None = None
        self.visible_outputs = operator.visible_outputs()

    def parameters(self, inputs: Sequence[Array | None], data: Array) -> Parameters | None:
        return None if inputs[1] is None else self.rnn.split(inputs[1], data)

    def states(self, inputs: Sequence[Array | None]) -> list[Array | None]:
        return list(inputs[2:])

    def last_states(self, outputs: Sequence[Array | None]) -> list[Array | None]:
        return list(outputs[1 : self.rnn.visible_outputs()])

    def parameter_inputs(self, count: int) -> range:
        return range(1, 2)


class Apart:
    """The form of a plan's layer: data, states without an axis for layers, weights and biases."""

    def __init__(self, operator: Recurrent) -> None:
        self._operator = operator
        self.rnn = operator.rnn
        self.order: tuple[int, ...] | None = operator.order
        self.visible_outputs = operator.visible_outputs()
        self._states = slice(1, 1 + operator.state_count)

    def parameters(self, inputs: Sequence[Array | None], data: Array) -> Parameters | None:
        return [[self._operator.parameters(inputs)]]

    def states(self, inputs: Sequence[Array | None]) -> list[Array | None]:
        return [None if state is None else state[None] for state in inputs[self._states]]

    def last_states(self, outputs: Sequence[Array | None]) -> list[Array | None]:
        return self.states(outputs)

    def parameter_inputs(self, count: int) -> range:
        return range(self._states.stop, count)
