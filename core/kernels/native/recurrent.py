"""LSTM and GRU in inference, whose gates are computed before their sums leave the registers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...capabilities.fused import Recurrent
from ...capabilities.layers import CellParameters, Rnn
from ...types import Array, shape_size
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources
from ..onednn.kernel import are_float32, present
from ..recurrent_forms import Apart, ConcatInPlace, Form
from .call import NativeCall
from .library import in_turn, library, loaded, pointer, threads
from .structures import RecurrentSizes, RecurrentTensors

__all__ = ["recurrent", "recurrent_layer"]

_GATES = {"lstm": 4, "gru": 3}
_LANES = 16
_WORTH_A_THREAD = 1 << 14
"""Multiplications of a step for which another thread is worth waiting for."""
_FLOAT32 = np.dtype("float32")


@dataclasses.dataclass(frozen=True)
class _Layer:
    """Sizes of a layer."""

    steps: int
    batch: int
    inputs: int
    hidden: int
    directions: int
    gates: int

    @property
    def panels(self) -> int:
        """Number of groups of 16 units."""
        return -(-self.hidden // _LANES)

    @property
    def packed_bytes(self) -> int:
        """Size of the parameters as ``recurrent.c`` takes them."""
        rows = self.inputs + self.hidden + 2
        return self.directions * rows * self.panels * self.gates * _LANES * _FLOAT32.itemsize

    @property
    def output_bytes(self) -> int:
        """Size of the output."""
        shape = (self.steps, self.batch, self.directions * self.hidden)
        return shape_size(shape) * _FLOAT32.itemsize

    def as_c(self) -> RecurrentSizes:
        """Return the sizes, and how many threads are worth it, for C."""
        products = self.batch * self.directions * self.gates * self.hidden**2
        most = min(threads(), 1 + products // _WORTH_A_THREAD)
        return RecurrentSizes(*dataclasses.astuple(self), most)

    def pack(
        self, parameters: Sequence[CellParameters], order: Sequence[int], packed: Array
    ) -> None:
        """Write the parameters of each direction in the order of ``recurrent.c``.

        Args:
            parameters: weights and biases of each direction.
            order: the place of each gate in the rows of the weights.
            packed: memory of ``packed_bytes``.
        """
        target = packed.view(_FLOAT32).reshape(self.directions, -1)
        for given, part in zip(parameters, target, strict=True):
            biases = self._biases(given, order)
            weights = (self._by_gate(one, order) for one in (given.i2h_weight, given.h2h_weight))
            panels = [self._panels(one).ravel() for one in (*weights, biases)]
            np.concatenate(panels, out=part)

    def _by_gate(self, rows: Array, order: Sequence[int]) -> Array:
        return rows.reshape(self.gates, self.hidden, -1)[list(order)]

    def _biases(self, given: CellParameters, order: Sequence[int]) -> Array:
        """Return (gates, hidden, 2): what is added to the input's share of the sums of a gate, and
        what to the state's. GRU's reset gate multiplies the state's share of the candidate."""
        of_input = self._by_gate(given.i2h_bias, order)
        of_state = self._by_gate(given.h2h_bias, order)
        # Added up once here instead of at each step, but for the candidate of GRU.
        both = np.concatenate([of_input + of_state, np.zeros_like(of_state)], axis=2)
        if self.gates == _GATES["gru"]:
            both[-1] = np.concatenate([of_input[-1], of_state[-1]], axis=1)
        return both

    def _panels(self, by_gate: Array) -> Array:
        """Return values (gates, hidden, columns) as (panels, columns, gates, 16)."""
        # Units that fill up the last panel have zeros; C does not store what it computes for them.
        missing = self.panels * _LANES - self.hidden
        padded = np.pad(by_gate, ((0, 0), (0, missing), (0, 0)))
        panels = padded.reshape(self.gates, self.panels, _LANES, -1)
        return panels.transpose(1, 3, 0, 2)


class _Recurrent(Kernel):
    """Runs one layer after the other.

    Args:
        form: where the operands are.
        layers: the sizes of each layer.
        parameter_inputs: positions of the parameters.
    """

    name = "native:rnn"
    inplace = ()
    uses_scratch = False

    def __init__(self, form: Form, layers: Sequence[_Layer], parameter_inputs: range) -> None:
        self._form, self._layers, self._parameter_inputs = form, layers, parameter_inputs
        self.unwritten_outputs = (form.visible_outputs,)
        self._between = max((layer.output_bytes for layer in layers[:-1]), default=0)
        scratch = max(loaded().recurrent_scratch(layer.as_c()) for layer in layers)
        self.scratchpad_bytes = 2 * self._between + scratch * _FLOAT32.itemsize

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Any:
        """Return a closure that computes all layers with packed parameters."""
        states = [present(one) for one in self._form.states(arrays.inputs)]
        last_states = [present(one) for one in self._form.last_states(arrays.outputs)]
        pad, size = present(resources.scratchpad), self._between
        data, calls = present(arrays.inputs[0]), []
        for index, (layer, packed) in enumerate(self._packed(arrays, resources)):
            span = slice(index * layer.directions, (index + 1) * layer.directions)
            is_top = index == len(self._layers) - 1
            # Alternately: a layer reads the output before while it writes its own.
            between = pad[index % 2 * size :]
            out = present(arrays.outputs[0]) if is_top else between
            tensors = RecurrentTensors(
                layer.as_c(),
                pointer(data),
                pointer(packed),
                *_two([pointer(state[span]) for state in states]),
                pointer(out),
                *_two([pointer(state[span]) for state in last_states]),
                pointer(pad[2 * size :]),
            )
            calls.append(NativeCall.of(loaded().recurrent, tensors))
            data = out
        return in_turn(calls)

    def _packed(
        self, arrays: KernelArrays, resources: KernelResources
    ) -> Iterator[tuple[_Layer, Array]]:
        """Return each layer with its parameters, which the plan keeps until they change."""
        order = self._form.order or tuple(range(self._layers[0].gates))
        sizes = [layer.packed_bytes for layer in self._layers]
        kept = resources.prepack(
            (self.name, order, tuple(self._layers)),
            self._parameter_inputs,
            sum(sizes),
            partial(self._pack, arrays, order),
        )
        ends = np.cumsum([0, *sizes])
        for layer, begin, end in zip(self._layers, ends, ends[1:], strict=False):
            yield layer, kept[begin:end]

    def _pack(self, arrays: KernelArrays, order: Sequence[int], kept: Array) -> None:
        parameters = self._form.parameters(arrays.inputs, present(arrays.inputs[0]))
        assert parameters is not None
        begin = 0
        for layer, given in zip(self._layers, parameters, strict=True):
            layer.pack(given, order, kept[begin : begin + layer.packed_bytes])
            begin += layer.packed_bytes


def _two(pointers: Sequence[Any]) -> tuple[Any, Any]:
    """Return the pointers to state and memory, null for what is absent."""
    state, memory, *_ = (*pointers, None, None)
    return state, memory


def recurrent(request: KernelRequest[Rnn]) -> Kernel | None:
    """Prepare the forward pass in inference, if all sequences have the same length."""
    return _prepare(request, ConcatInPlace(request.operator))


def recurrent_layer(request: KernelRequest[Recurrent]) -> Kernel | None:
    """Prepare the forward pass of a layer whose parameters are separate arrays."""
    return _prepare(request, Apart(request.operator))


def _prepare(request: KernelRequest[Any], form: Form) -> Kernel | None:
    rnn, data = form.rnn, request.inputs[0]
    if library() is None or request.is_train or data is None or rnn.mode not in _GATES:
        return None
    is_plain = rnn.projection_size is None and rnn.clip is None and not rnn.use_sequence_length
    parameter_inputs = form.parameter_inputs(len(request.inputs))
    are_kept = all(request.is_constant[position] for position in parameter_inputs)
    if not (is_plain and are_kept and are_float32(request)):
        return None
    steps, batch, inputs = data.shape
    layers = []
    for _ in range(rnn.num_layers):
        sizes = (inputs, rnn.state_size, rnn.directions, _GATES[rnn.mode])
        layers.append(_Layer(steps, batch, *sizes))
        inputs = rnn.directions * rnn.state_size
    return _Recurrent(form, layers, parameter_inputs)
