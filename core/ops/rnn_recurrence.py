"""What the recurrences of the fused RNN have in common: one layer in one direction, over all steps.

What does not depend on the state is done for all steps at once: the inputs' projection, the slopes
of the gates, the gradients of the weights. The loop over the steps holds only what does.
"""

from __future__ import annotations

import abc
from typing import ClassVar, NamedTuple

from ..types import Array, DType
from .operator import Run
from .rnn_layout import CellParameters
from .summation import add_up

__all__ = ["CellArrays", "CellGradients", "Recurrence", "StateClip", "rows_of"]


class StateClip(NamedTuple):
    """The range to which an LSTM's memory is clipped, and whether NaN becomes its lower end."""

    low: float
    high: float
    stops_nan: bool


class CellArrays(NamedTuple):
    """The arrays of one layer in one direction.

    Attributes:
        parameters: its weights and biases.
        data: inputs (steps, batch, inputs).
        state: state before the first step (batch, width).
        memory: memory before the first step (batch, hidden), for LSTM.
        output: states (steps, batch, width), written by ``forward``.
        gates: gates after their activation (steps, batch, gates · hidden), written by ``forward``.
        kept: what else the cell needs (steps, batch, hidden), written by ``forward``.
        is_reversed: whether the last step comes first.
    """

    parameters: CellParameters
    data: Array
    state: Array
    memory: Array | None
    output: Array
    gates: Array
    kept: Array | None
    is_reversed: bool

    def order(self) -> range:
        """Return the steps in the order in which they are taken."""
        steps = len(self.output)
        return range(steps - 1, -1, -1) if self.is_reversed else range(steps)


class CellGradients(NamedTuple):
    """Gradients that arrive, of the output and (or None) of the last state and memory, and arrays
    that take those of data, the first state and memory, and the parameters (or None).

    ``data`` is added to where ``adds_data`` says so.
    """

    output: Array
    last_state: Array | None
    last_memory: Array | None
    data: Array | None
    adds_data: bool
    state: Array | None
    memory: Array | None
    parameters: CellParameters | None


class Recurrence(abc.ABC):
    """One kind of cell. An object holds the scratch memory of one pass over all layers.

    Args:
        run: where scratch memory comes from.
        steps, batch, hidden: sizes.
        width: length of a state: ``hidden``, but where states are projected.
        dtype: of all arrays.
        ended: True where a sequence is over (steps, batch, 1), or None. There the state stays.
        clip: the range of an LSTM's memory, or None.
        is_backward: which of the two passes it is for.
    """

    gate_count: ClassVar[int]
    has_kept: ClassVar[bool] = True

    def __init__(
        self,
        run: Run,
        steps: int,
        batch: int,
        hidden: int,
        width: int,
        dtype: DType,
        ended: Array | None,
        *,
        clip: StateClip | None,
        is_backward: bool,
    ) -> None:
        self.run = run
        self.xp = run.xp
        self.hidden, self.width = hidden, width
        self.ended, self.clip = ended, clip
        self.step_gates = run.scratch((batch, self.gate_count * hidden), dtype)
        self.work = run.scratch((batch, hidden), dtype)
        if is_backward:
            self.take_backward_scratch(steps, batch, dtype)
        else:
            self.take_forward_scratch(batch, dtype)

    def take_forward_scratch(self, batch: int, dtype: DType) -> None:
        """Take what only the forward pass needs."""
        self.bias = self.run.scratch((self.gate_count * self.hidden,), dtype)

    def take_backward_scratch(self, steps: int, batch: int, dtype: DType) -> None:
        """Take what only the backward pass needs."""
        rows, scratch = self.gate_count * self.hidden, self.run.scratch
        self.gate_grads = scratch((steps, batch, rows), dtype)
        self.grad = scratch((batch, self.width), dtype)
        self.next_grad = scratch((batch, self.width), dtype)
        self.weight_share = scratch((rows, self.width), dtype)
        self.states_before = (
            None if self.ended is None else scratch((steps, batch, self.width), dtype)
        )

    # -- forward ----------------------------------------------------------------------------

    def forward(
        self, cell: CellArrays, last_state: Array | None, last_memory: Array | None
    ) -> None:
        """Run all steps; write output, gates, kept and (where given) the last state and memory."""
        self._project_inputs(cell)
        state, memory = cell.state, cell.memory
        for t in cell.order():
            self.step(cell, t, state, memory)
            self._freeze(cell.output, t, state)
            state = cell.output[t]
            if memory is not None:
                assert cell.kept is not None
                self._freeze(cell.kept, t, memory)
                memory = cell.kept[t]
        if last_state is not None:
            self.xp.copyto(last_state, state)
        if last_memory is not None:
            self.xp.copyto(last_memory, memory)

    @abc.abstractmethod
    def step(self, cell: CellArrays, t: int, state: Array, memory: Array | None) -> None:
        """Turn ``gates[t]``, the projected inputs, into activated gates; write ``output[t]``."""

    def input_bias(self, parameters: CellParameters, bias: Array) -> None:
        """Write what is added to the inputs' projection: both biases."""
        self.xp.add(parameters.i2h_bias, parameters.h2h_bias, out=bias)

    def _project_inputs(self, cell: CellArrays) -> None:
        self.xp.matmul(rows_of(cell.data), cell.parameters.i2h_weight.T, out=rows_of(cell.gates))
        self.input_bias(cell.parameters, self.bias)
        gates = cell.gates
        gates += self.bias

    def _freeze(self, states: Array, t: int, before: Array) -> None:
        if self.ended is not None:
            self.xp.copyto(states[t], before, where=self.ended[t])

    # -- backward ---------------------------------------------------------------------------

    def backward(self, cell: CellArrays, grads: CellGradients) -> None:
        """Run all steps back; write the gradients asked for."""
        xp = self.xp
        self.prepare_backward(cell, grads)
        if grads.last_state is None:
            self.next_grad[...] = 0
        else:
            xp.copyto(self.next_grad, grads.last_state)
        order, states = cell.order(), self._states_before(cell)
        for position in range(len(order) - 1, -1, -1):
            t = order[position]
            before = order[position - 1] if position else None
            state = cell.state if before is None else states[before]
            xp.add(grads.output[t], self.next_grad, out=self.grad)
            self.step_backward(cell, t, before, state)
            # A step past a sequence's end passed the state on unchanged, and so its gradient.
            if self.ended is not None:
                xp.copyto(self.next_grad, self.grad, where=self.ended[t])
        if grads.state is not None:
            xp.copyto(grads.state, self.next_grad)
        self._input_gradient(cell, grads)
        if grads.parameters is not None:
            self._parameter_gradients(cell, states, grads.parameters)

    @abc.abstractmethod
    def prepare_backward(self, cell: CellArrays, grads: CellGradients) -> None:
        """Do for all steps at once what does not depend on later steps; write the gates' slopes
        into ``gate_grads``."""

    @abc.abstractmethod
    def step_backward(self, cell: CellArrays, t: int, before: int | None, state: Array) -> None:
        """Take the gradient of ``output[t]`` in ``grad`` to the step before, into ``next_grad``.

        ``state`` is that of the step ``before``. Multiplies ``gate_grads[t]``.
        """

    def hidden_gate_grads(self) -> Array:
        """Return the gates' gradients as the hidden weights and bias see them."""
        return self.gate_grads

    def finish_gate_grads(self, gate_grads: Array, t: int) -> None:
        """Set the gradients of ended sequences to zero."""
        if self.ended is not None:
            self.xp.copyto(gate_grads[t], 0, where=self.ended[t])

    def _input_gradient(self, cell: CellArrays, grads: CellGradients) -> None:
        if grads.data is None:
            return
        target = grads.data
        if grads.adds_data:
            target = self.run.scratch(grads.data.shape, grads.data.dtype)
        self.xp.matmul(rows_of(self.gate_grads), cell.parameters.i2h_weight, out=rows_of(target))
        if grads.adds_data:
            self.xp.add(grads.data, target, out=grads.data)

    def _parameter_gradients(self, cell: CellArrays, states: Array, target: CellParameters) -> None:
        xp, gate_grads, hidden_grads = self.xp, self.gate_grads, self.hidden_gate_grads()
        xp.matmul(rows_of(gate_grads).T, rows_of(cell.data), out=target.i2h_weight)
        add_up(self.run, rows_of(gate_grads), 0, target.i2h_bias)
        add_up(self.run, rows_of(hidden_grads), 0, target.h2h_bias)
        # The first step started from the initial state, which ``states`` does not hold.
        if cell.is_reversed:
            first, later, states = hidden_grads[-1], hidden_grads[:-1], states[1:]
        else:
            first, later, states = hidden_grads[0], hidden_grads[1:], states[:-1]
        xp.matmul(rows_of(later).T, rows_of(states), out=target.h2h_weight)
        xp.matmul(first.T, cell.state, out=self.weight_share)
        xp.add(target.h2h_weight, self.weight_share, out=target.h2h_weight)

    def _states_before(self, cell: CellArrays) -> Array:
        """Return the states that the steps started from: the output, with the first state where a
        sequence has ended, for in the reversed direction it begins there."""
        if self.states_before is None or not cell.is_reversed:
            return cell.output
        self.xp.copyto(self.states_before, cell.output)
        self.xp.copyto(self.states_before, cell.state, where=self.ended)
        return self.states_before

    # -- helpers ----------------------------------------------------------------------------

    def gate(self, gates: Array, index: int) -> Array:
        """Return one gate of an array of all."""
        return gates[..., index * self.hidden : (index + 1) * self.hidden]

    def write_sigmoid_slope(self, value: Array, slope: Array) -> None:
        """Write the slope of the logistic function where it has this value."""
        self.xp.subtract(1, value, out=slope)
        slope *= value

    def write_tanh_slope(self, value: Array, slope: Array) -> None:
        """Write the slope of tanh where it has this value."""
        self.xp.multiply(value, value, out=slope)
        self.xp.subtract(1, slope, out=slope)


def rows_of(array: Array) -> Array:
    """Return an array of steps, batch and columns with the first two joined."""
    return array.reshape(-1, array.shape[-1])
