"""The recurrences of the fused RNN: LSTM, GRU and plain cells."""

from __future__ import annotations

import abc
from typing import ClassVar

from ..types import Array, DType
from .rnn_layout import CellParameters
from .rnn_recurrence import CellArrays, CellGradients, Recurrence, rows_of

__all__ = ["CELLS"]


class Lstm(Recurrence):
    """Long short-term memory; gates: input, forget, candidate, output. Keeps the memory.

    The memory may be clipped, and the output projected (Sak et al. 2014, arXiv:1402.1128).
    """

    gate_count: ClassVar[int] = 4

    def take_forward_scratch(self, batch: int, dtype: DType) -> None:
        super().take_forward_scratch(batch, dtype)
        # The logistic function is 0.5 · tanh(0.5 · x) + 0.5: one call of tanh for all gates.
        self.scale = self.run.scratch((4 * self.hidden,), dtype)
        self.shift = self.run.scratch((4 * self.hidden,), dtype)
        self.scale[...] = self.shift[...] = 0.5
        self.gate(self.scale, 2)[...] = 1
        self.gate(self.shift, 2)[...] = 0
        self.projected = self.run.scratch((batch, self.width), dtype)

    def take_backward_scratch(self, steps: int, batch: int, dtype: DType) -> None:
        super().take_backward_scratch(steps, batch, dtype)
        self.memory_grad = self.run.scratch((batch, self.hidden), dtype)
        self.memory_grad_after = self.run.scratch((batch, self.hidden), dtype)
        self.memory_tanh = self.run.scratch((steps, batch, self.hidden), dtype)
        self.memory_slope = self.run.scratch((steps, batch, self.hidden), dtype)
        self.hidden_grad = self.run.scratch((batch, self.hidden), dtype)
        self.projected_grads = self.run.scratch((steps, batch, self.width), dtype)
        self.is_clipped = self.run.scratch((2, steps, batch, self.hidden), "bool")

    def step(self, cell: CellArrays, t: int, state: Array, memory: Array | None) -> None:
        assert cell.kept is not None
        xp, gates, new_memory = self.xp, cell.gates[t], cell.kept[t]
        xp.matmul(state, cell.parameters.h2h_weight.T, out=self.step_gates)
        gates += self.step_gates
        gates *= self.scale
        xp.tanh(gates, out=gates)
        gates *= self.scale
        gates += self.shift
        write, forget, candidate, show = (self.gate(gates, i) for i in range(4))
        xp.multiply(forget, memory, out=new_memory)
        xp.multiply(write, candidate, out=self.work)
        new_memory += self.work
        self._clip(new_memory)
        xp.tanh(new_memory, out=self.work)
        weight = cell.parameters.h2r_weight
        if weight is None:
            xp.multiply(show, self.work, out=cell.output[t])
            return
        self.work *= show
        xp.matmul(self.work, weight.T, out=self.projected)
        xp.copyto(cell.output[t], self.projected)

    def _clip(self, memory: Array) -> None:
        if self.clip is None:
            return
        # fmax and fmin return the other operand where one is NaN.
        least, most = ("fmax", "fmin") if self.clip.stops_nan else ("maximum", "minimum")
        getattr(self.xp, least)(memory, self.clip.low, out=memory)
        getattr(self.xp, most)(memory, self.clip.high, out=memory)

    def prepare_backward(self, cell: CellArrays, grads: CellGradients) -> None:
        xp = self.xp
        for index in (0, 1, 3):
            self.write_sigmoid_slope(
                self.gate(cell.gates, index), self.gate(self.gate_grads, index)
            )
        self.write_tanh_slope(self.gate(cell.gates, 2), self.gate(self.gate_grads, 2))
        xp.tanh(cell.kept, out=self.memory_tanh)
        # The derivative of the output, before its projection, by the memory.
        self.write_tanh_slope(self.memory_tanh, self.memory_slope)
        self.memory_slope *= self.gate(cell.gates, 3)
        if self.clip is not None:
            below, above = self.is_clipped
            xp.less_equal(cell.kept, self.clip.low, out=below)
            xp.greater_equal(cell.kept, self.clip.high, out=above)
            below |= above
        if grads.last_memory is None:
            self.memory_grad[...] = 0
        else:
            xp.copyto(self.memory_grad, grads.last_memory)

    def step_backward(self, cell: CellArrays, t: int, before: int | None, state: Array) -> None:
        assert cell.kept is not None
        xp, gates, share = self.xp, cell.gates[t], self.step_gates
        memory = cell.memory if before is None else cell.kept[before]
        write, forget, candidate, _ = (self.gate(gates, i) for i in range(4))
        grad = self._grad_of_hidden(cell, t)
        xp.multiply(grad, self.memory_slope[t], out=self.work)
        xp.add(self.memory_grad, self.work, out=self.memory_grad_after)
        after = self.memory_grad_after
        # The gradient of clipping is 0 at and beyond its bounds.
        if self.clip is not None:
            xp.copyto(after, 0, where=self.is_clipped[0, t])
        # Each gate's slope, in ``gate_grads``, is multiplied by what the gate was multiplied by.
        xp.multiply(after, candidate, out=self.gate(share, 0))
        xp.multiply(after, memory, out=self.gate(share, 1))
        xp.multiply(after, write, out=self.gate(share, 2))
        xp.multiply(grad, self.memory_tanh[t], out=self.gate(share, 3))
        gate_grads = self.gate_grads[t]
        gate_grads *= share
        self.finish_gate_grads(self.gate_grads, t)
        after *= forget
        if self.ended is not None:
            xp.copyto(after, self.memory_grad, where=self.ended[t])
        self.memory_grad, self.memory_grad_after = after, self.memory_grad
        xp.matmul(gate_grads, cell.parameters.h2h_weight, out=self.next_grad)

    def backward(self, cell: CellArrays, grads: CellGradients) -> None:
        super().backward(cell, grads)
        if grads.memory is not None:
            self.xp.copyto(grads.memory, self.memory_grad)

    def _grad_of_hidden(self, cell: CellArrays, t: int) -> Array:
        """Return the gradient of a step's output before its projection."""
        weight = cell.parameters.h2r_weight
        if weight is None:
            return self.grad
        grads = self.projected_grads[t]
        self.xp.copyto(grads, self.grad)
        if self.ended is not None:
            self.xp.copyto(grads, 0, where=self.ended[t])
        self.xp.matmul(self.grad, weight, out=self.hidden_grad)
        return self.hidden_grad

    def _parameter_gradients(self, cell: CellArrays, states: Array, target: CellParameters) -> None:
        super()._parameter_gradients(cell, states, target)
        if target.h2r_weight is None:
            return
        hidden = self.memory_slope  # the slopes have been used
        self.xp.multiply(self.memory_tanh, self.gate(cell.gates, 3), out=hidden)
        rows = rows_of(self.projected_grads)
        self.xp.matmul(rows.T, rows_of(hidden), out=target.h2r_weight)


class GatedUnit(Recurrence):
    """Base of both gated recurrent units; gates: reset, update, candidate."""

    gate_count: ClassVar[int] = 3

    def open_gates(self, gates: Array, hidden_part: Array) -> None:
        """Add the hidden parts to reset and update, and apply their sigmoid."""
        both = gates[:, : 2 * self.hidden]
        both += hidden_part
        both *= 0.5
        self.xp.tanh(both, out=both)
        both *= 0.5
        both += 0.5

    def blend(self, gates: Array, hidden_part: Array, state: Array, out: Array) -> None:
        """Finish the candidate and write the new state, between it and the one before."""
        xp, update, candidate = self.xp, self.gate(gates, 1), self.gate(gates, 2)
        candidate += hidden_part
        xp.tanh(candidate, out=candidate)
        # (1 - update) * candidate + update * state, with one product fewer.
        xp.subtract(state, candidate, out=self.work)
        self.work *= update
        xp.add(candidate, self.work, out=out)

    def prepare_backward(self, cell: CellArrays, grads: CellGradients) -> None:
        for index in (0, 1):
            self.write_sigmoid_slope(
                self.gate(cell.gates, index), self.gate(self.gate_grads, index)
            )
        self.write_tanh_slope(self.gate(cell.gates, 2), self.gate(self.gate_grads, 2))

    def blend_backward(self, gates: Array, gate_grads: Array, state: Array) -> None:
        """Turn the slopes of update and candidate into their gradients."""
        xp, update, candidate = self.xp, self.gate(gates, 1), self.gate(gates, 2)
        update_grad, candidate_grad = self.gate(gate_grads, 1), self.gate(gate_grads, 2)
        xp.subtract(1, update, out=self.work)
        self.work *= self.grad
        candidate_grad *= self.work
        xp.subtract(state, candidate, out=self.work)
        self.work *= self.grad
        update_grad *= self.work

    def add_direct_grad(self, gates: Array) -> None:
        """Add what reaches the state before past all gates."""
        self.xp.multiply(self.grad, self.gate(gates, 1), out=self.work)
        self.next_grad += self.work


class Gru(GatedUnit):
    """Gated recurrent unit, cuDNN's variant.

    Keeps the hidden part of the candidate, which the reset gate multiplies.
    """

    def take_backward_scratch(self, steps: int, batch: int, dtype: DType) -> None:
        super().take_backward_scratch(steps, batch, dtype)
        self.hidden_grads = self.run.scratch((steps, batch, 3 * self.hidden), dtype)

    def input_bias(self, parameters: CellParameters, bias: Array) -> None:
        super().input_bias(parameters, bias)
        # The candidate's hidden bias belongs to what the reset gate multiplies, so ``step`` adds
        # it.
        self.xp.copyto(self.gate(bias, 2), self.gate(parameters.i2h_bias, 2))

    def step(self, cell: CellArrays, t: int, state: Array, memory: Array | None) -> None:
        assert cell.kept is not None
        xp, gates, hidden_part, out = self.xp, cell.gates[t], cell.kept[t], cell.output[t]
        xp.matmul(state, cell.parameters.h2h_weight.T, out=self.step_gates)
        self.open_gates(gates, self.step_gates[:, : 2 * self.hidden])
        xp.add(
            self.gate(self.step_gates, 2), self.gate(cell.parameters.h2h_bias, 2), out=hidden_part
        )
        xp.multiply(self.gate(gates, 0), hidden_part, out=self.work)
        self.blend(gates, self.work, state, out)

    def step_backward(self, cell: CellArrays, t: int, before: int | None, state: Array) -> None:
        assert cell.kept is not None
        xp, gates, gate_grads = self.xp, cell.gates[t], self.gate_grads[t]
        reset_grad, candidate_grad = self.gate(gate_grads, 0), self.gate(gate_grads, 2)
        self.blend_backward(gates, gate_grads, state)
        xp.multiply(candidate_grad, cell.kept[t], out=self.work)
        reset_grad *= self.work
        self.finish_gate_grads(self.gate_grads, t)
        hidden_grads = self.hidden_grads[t]
        xp.copyto(hidden_grads, gate_grads)
        self.gate(hidden_grads, 2)[...] *= self.gate(gates, 0)
        xp.matmul(hidden_grads, cell.parameters.h2h_weight, out=self.next_grad)
        self.add_direct_grad(gates)

    def hidden_gate_grads(self) -> Array:
        return self.hidden_grads


class ResetFirstGru(GatedUnit):
    """Gated recurrent unit as first published (Cho et al. 2014, arXiv:1406.1078): the reset gate
    multiplies the state before the candidate's weight does.

    Keeps the state that has been reset.
    """

    def take_forward_scratch(self, batch: int, dtype: DType) -> None:
        super().take_forward_scratch(batch, dtype)
        self._part_step_gates()

    def take_backward_scratch(self, steps: int, batch: int, dtype: DType) -> None:
        super().take_backward_scratch(steps, batch, dtype)
        self._part_step_gates()

    def _part_step_gates(self) -> None:
        """Make contiguous arrays of the memory for one step's gates: two of them, and the third."""
        batch, size = self.step_gates.shape[0], self.step_gates.size
        memory = self.step_gates.reshape(-1)
        self.both = memory[: size - batch * self.hidden].reshape(batch, -1)
        self.share = memory[size - batch * self.hidden :].reshape(batch, -1)

    def step(self, cell: CellArrays, t: int, state: Array, memory: Array | None) -> None:
        assert cell.kept is not None
        xp, gates, was_reset, out = self.xp, cell.gates[t], cell.kept[t], cell.output[t]
        gates_weight, weight = self._weights(cell)
        xp.matmul(state, gates_weight.T, out=self.both)
        self.open_gates(gates, self.both)
        xp.multiply(self.gate(gates, 0), state, out=was_reset)
        xp.matmul(was_reset, weight.T, out=self.work)
        self.blend(gates, self.work, state, out)

    def step_backward(self, cell: CellArrays, t: int, before: int | None, state: Array) -> None:
        xp, gates, gate_grads = self.xp, cell.gates[t], self.gate_grads[t]
        gates_weight, weight = self._weights(cell)
        reset_grad, candidate_grad = self.gate(gate_grads, 0), self.gate(gate_grads, 2)
        self.blend_backward(gates, gate_grads, state)
        xp.matmul(candidate_grad, weight, out=self.share)
        xp.multiply(self.share, state, out=self.work)
        reset_grad *= self.work
        self.finish_gate_grads(self.gate_grads, t)
        xp.matmul(gate_grads[:, : 2 * self.hidden], gates_weight, out=self.next_grad)
        self.share *= self.gate(gates, 0)
        self.next_grad += self.share
        self.add_direct_grad(gates)

    def _parameter_gradients(self, cell: CellArrays, states: Array, target: CellParameters) -> None:
        super()._parameter_gradients(cell, states, target)
        assert cell.kept is not None
        candidate_grads = self.gate(rows_of(self.gate_grads), 2)
        rows = target.h2h_weight[2 * self.hidden :]
        self.xp.matmul(candidate_grads.T, rows_of(cell.kept), out=rows)

    def _weights(self, cell: CellArrays) -> tuple[Array, Array]:
        """Return the state's weight for the gates, and for the candidate."""
        weight = cell.parameters.h2h_weight
        return weight[: 2 * self.hidden], weight[2 * self.hidden :]


class Vanilla(Recurrence):
    """A layer without gates: activation of input and state."""

    gate_count: ClassVar[int] = 1
    has_kept: ClassVar[bool] = False

    @abc.abstractmethod
    def activate(self, values: Array) -> None:
        """Apply the activation in place."""

    def step(self, cell: CellArrays, t: int, state: Array, memory: Array | None) -> None:
        gates = cell.gates[t]
        self.xp.matmul(state, cell.parameters.h2h_weight.T, out=self.step_gates)
        gates += self.step_gates
        self.activate(gates)
        self.xp.copyto(cell.output[t], gates)

    def step_backward(self, cell: CellArrays, t: int, before: int | None, state: Array) -> None:
        gate_grads = self.gate_grads[t]
        gate_grads *= self.grad
        self.finish_gate_grads(self.gate_grads, t)
        self.xp.matmul(gate_grads, cell.parameters.h2h_weight, out=self.next_grad)


class TanhCell(Vanilla):
    """``tanh(W·x + b + R·h + c)``."""

    def activate(self, values: Array) -> None:
        self.xp.tanh(values, out=values)

    def prepare_backward(self, cell: CellArrays, grads: CellGradients) -> None:
        self.write_tanh_slope(cell.gates, self.gate_grads)


class ReluCell(Vanilla):
    """``max(0, W·x + b + R·h + c)``."""

    def activate(self, values: Array) -> None:
        self.xp.maximum(values, 0, out=values)

    def prepare_backward(self, cell: CellArrays, grads: CellGradients) -> None:
        # ``gates`` holds the outputs, which are positive where the inputs were.
        self.xp.greater(cell.gates, 0, out=self.gate_grads)


CELLS: dict[str, type[Recurrence]] = {
    "rnn_relu": ReluCell,
    "rnn_tanh": TanhCell,
    "lstm": Lstm,
    "gru": Gru,
    "gru_reset_first": ResetFirstGru,
}
"""The recurrence of each value of the attribute ``mode``, and of one that only plans use."""
