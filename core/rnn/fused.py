"""All layers and steps in one ``RNN`` operator."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from .. import symbol
from ..errors import UsageError
from ..initializer import FusedRNN
from ..ndarray import NDArray, zeros
from ..ops.rnn_packing import GATES, PackedArray, input_size_of, packed_arrays, packed_size
from ..symbol import Symbol
from .base import BaseRNNCell, Inputs, RNNParams, Weights, as_sequence
from .cells import GRUCell, LSTMCell, RNNCell
from .containers import BidirectionalCell, SequentialRNNCell
from .modifiers import DropoutCell

__all__ = ["FusedRNNCell"]


class FusedRNNCell(BaseRNNCell):
    """Recurrent layers as one operator with one parameter vector; it can only be unrolled.

    Args:
        num_hidden: units of each layer and direction.
        num_layers: number of layers.
        mode: ``"rnn_relu"``, ``"rnn_tanh"``, ``"lstm"`` or ``"gru"``.
        bidirectional: both directions in each layer, outputs side by side.
        dropout: fraction dropped between layers.
        get_next_state: return the states after the last step.
        forget_bias: first value of the LSTM's forget biases.
        prefix: of names; None for the mode and an underscore.
        params: variables shared with other cells.
    """

    is_fused = True

    def __init__(
        self,
        num_hidden: int,
        num_layers: int = 1,
        mode: str = "lstm",
        bidirectional: bool = False,
        dropout: float = 0.0,
        get_next_state: bool = False,
        forget_bias: float = 1.0,
        prefix: str | None = None,
        params: RNNParams | None = None,
    ) -> None:
        super().__init__(prefix=f"{mode}_" if prefix is None else prefix, params=params)
        self._num_hidden = num_hidden
        self._num_layers = num_layers
        self._mode = mode
        self._bidirectional = bidirectional
        self._dropout = dropout
        self._get_next_state = get_next_state
        init = FusedRNN(None, num_hidden, num_layers, mode, bidirectional, forget_bias)
        self._parameter = self._params.get("parameters", init=init)

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """(layers and directions, batch, num_hidden) of each state."""
        layers = self._num_layers * (2 if self._bidirectional else 1)
        count = 2 if self._mode == "lstm" else 1
        info = {"shape": (layers, 0, self._num_hidden), "__layout__": "LNC"}
        return [dict(info) for _ in range(count)]

    @property
    def _gate_names(self) -> Sequence[str]:
        return GATES[self._mode]

    def unpack_weights(self, args: Weights) -> dict[str, NDArray]:
        """Return parameters with the vector divided into each gate's weight and bias."""
        unpacked = dict(args)
        vector = unpacked.pop(self._vector_name)
        layout = (self._mode, self._num_layers, self._num_hidden, self._bidirectional)
        for part in self._parts(input_size_of(vector.size, *layout)):
            values = vector[part.start : part.stop].reshape(part.shape)
            unpacked[self._prefix + part.name] = values.copy()
        return unpacked

    def pack_weights(self, args: Weights) -> dict[str, NDArray]:
        """Return parameters with the vector put together from weights and biases."""
        packed = dict(args)
        first = packed[f"{self._prefix}l0_i2h{self._gate_names[0]}_weight"]
        input_size = first.shape[1]
        size = packed_size(
            self._mode, self._num_layers, self._num_hidden, input_size, self._bidirectional
        )
        vector = zeros((size,), ctx=first.context, dtype=first.dtype)
        for part in self._parts(input_size):
            values = packed.pop(self._prefix + part.name)
            vector[part.start : part.stop] = values.reshape((-1,))
        packed[self._vector_name] = vector
        return packed

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """Raise NotImplementedError: the operator takes all steps at once."""
        raise NotImplementedError("FusedRNNCell cannot be stepped; use unroll, or unfuse() first")

    def unroll(
        self,
        length: int,
        inputs: Inputs,
        begin_state: Sequence[Any] | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """Take all steps in one operator, which works in TNC."""
        self.reset()
        data, axis = as_sequence(length, inputs, layout, True)
        if axis == 1:
            warnings.warn(
                "NTC layout detected. Consider using TNC for FusedRNNCell for faster speed",
                stacklevel=2,
            )
            data = symbol.swapaxes(data, dim1=0, dim2=1)
        elif axis != 0:
            raise UsageError(f"Unsupported layout {layout}; use NTC or TNC")
        states = self.begin_state() if begin_state is None else begin_state
        names = ("state", "state_cell") if self._mode == "lstm" else ("state",)
        rnn = symbol.RNN(
            data=data,
            parameters=self._parameter,
            state_size=self._num_hidden,
            num_layers=self._num_layers,
            bidirectional=self._bidirectional,
            p=self._dropout,
            state_outputs=self._get_next_state,
            mode=self._mode,
            name=f"{self._prefix}rnn",
            **dict(zip(names, states, strict=False)),
        )
        outputs, last = rnn, []
        if self._get_next_state:
            outputs, last = rnn[0], [rnn[position + 1] for position in range(len(names))]
            for state in last:
                state._set_attr(__layout__="LNC")
        if axis == 1:
            outputs = symbol.swapaxes(outputs, dim1=0, dim2=1)
        return as_sequence(length, outputs, layout, merge_outputs)[0], last

    def unfuse(self) -> BaseRNNCell:
        """Return the same layers as cells that take one step; ``unpack_weights`` fits them."""
        make: dict[str, Callable[[str], BaseRNNCell]] = {
            "rnn_relu": lambda prefix: RNNCell(self._num_hidden, activation="relu", prefix=prefix),
            "rnn_tanh": lambda prefix: RNNCell(self._num_hidden, activation="tanh", prefix=prefix),
            "lstm": lambda prefix: LSTMCell(self._num_hidden, prefix=prefix),
            "gru": lambda prefix: GRUCell(self._num_hidden, prefix=prefix),
        }
        cell = make[self._mode]
        stack = SequentialRNNCell()
        for layer in range(self._num_layers):
            left = cell(f"{self._prefix}l{layer}_")
            if self._bidirectional:
                right = cell(f"{self._prefix}r{layer}_")
                left = BidirectionalCell(left, right, output_prefix=f"{self._prefix}bi_l{layer}_")
            stack.add(left)
            if self._dropout > 0 and layer != self._num_layers - 1:
                stack.add(DropoutCell(self._dropout, prefix=f"{self._prefix}_dropout{layer}_"))
        return stack

    @property
    def _vector_name(self) -> str:
        return f"{self._params._prefix}parameters"

    def _parts(self, input_size: int) -> list[PackedArray]:
        return list(
            packed_arrays(
                self._mode, self._num_layers, self._num_hidden, input_size, self._bidirectional
            )
        )
