"""The fused recurrent network: one node for each layer, with gates in ONNX's order."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops.rnn import RNN
from ..ops.rnn_layout import CellParameters
from .conversion import Call, converts
from .graph import Tensor

_KINDS = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN", "rnn_relu": "RNN"}

_GATES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}
"""Indices of cuDNN's gates in ONNX's order: input, output, forget, cell; update, reset,
candidate."""


@converts(RNN)
def _rnn(call: Call, op: RNN) -> list[str]:
    data, vector, state, *rest = call.inputs
    if vector.values is None:
        raise call.cannot(
            "its parameters are computed; they must be constants, to be split for ONNX"
        )
    if op.projection_size is not None or op.clip is not None:
        raise call.cannot("its states are projected or clipped, which ONNX's LSTM cannot do")
    layers = op.split(vector.values, data)
    lengths = _lengths(call, rest[-1]) if op.use_sequence_length else ""
    memory = rest[0] if op.has_memory else None
    name, last_states, last_memories = data.name, [], []
    for number, cells in enumerate(layers):
        first = _of_layer(call, op, state, number)
        begin = [first] if memory is None else [first, _of_layer(call, op, memory, number)]
        out, *lasts = call.emit_several(
            _KINDS[op.mode],
            name,
            *(_joined(call, op, cells, kind) for kind in range(3)),
            lengths,
            *begin,
            outputs=3 if memory else 2,
            **_attributes(op),
        )
        last_states.append(lasts[0])
        last_memories.extend(lasts[1:])
        apart = call.transposed(out, (0, 2, 1, 3))  # (steps, batch, directions, state)
        name = call.reshaped(apart, call.output)
    if not op.state_outputs:
        return [name]
    return [name, *(_concat(call, ones) for ones in (last_states, last_memories) if ones)]


def _attributes(op: RNN) -> dict[str, Any]:
    found: dict[str, Any] = {
        "hidden_size": op.state_size,
        "direction": "bidirectional" if op.bidirectional else "forward",
    }
    if op.mode == "gru":
        found["linear_before_reset"] = 1  # cuDNN's form: the reset gate acts after the product
    elif op.mode != "lstm":
        found["activations"] = ["Relu" if op.mode == "rnn_relu" else "Tanh"] * op.directions
    return found


def _lengths(call: Call, given: Tensor) -> str:
    return call.as_dtype(given, np.dtype("int32"))


def _of_layer(call: Call, op: RNN, state: Tensor, layer: int) -> str:
    """Return a layer's part of a state, (layers · directions, batch, state size)."""
    region = slice(layer * op.directions, (layer + 1) * op.directions)
    return call.sliced(state.name, [region], state)


def _joined(call: Call, op: RNN, cells: list[CellParameters], kind: int) -> str:
    """Return the weights of the input (0) or the state (1), or the biases (2), of all
    directions."""
    parts = [
        np.concatenate([_in_order(op, cell.i2h_bias), _in_order(op, cell.h2h_bias)])
        if kind == 2
        else _in_order(op, cell[kind])
        for cell in cells
    ]
    return call.constant(np.stack(parts), call.output.dtype)


def _in_order(op: RNN, parameter: Any) -> np.ndarray[Any, Any]:
    gates = np.split(parameter, op.cell.gate_count)
    return np.concatenate([gates[one] for one in _GATES.get(op.mode, (0,))])


def _concat(call: Call, names: list[str]) -> str:
    return names[0] if len(names) == 1 else call.emit("Concat", *names, axis=0)
