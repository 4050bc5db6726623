"""The cells that take one step: plain, LSTM and GRU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import symbol
from ..initializer import LSTMBias
from ..ops.rnn_packing import GATES
from ..symbol import Symbol
from .base import BaseRNNCell, RNNParams

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "gru_step", "lstm_step"]


class _DenseCell(BaseRNNCell):
    """A cell whose gates are dense layers of the input and of the first state."""

    _states = 1
    _mode: str

    def __init__(
        self,
        num_hidden: int,
        prefix: str,
        params: RNNParams | None,
        bias_init: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._num_hidden = num_hidden
        variables = self._params
        self._iW = variables.get("i2h_weight")
        self._iB = variables.get("i2h_bias", init=bias_init)
        self._hW = variables.get("h2h_weight")
        self._hB = variables.get("h2h_bias")

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """(batch, num_hidden) of each state."""
        return [{"shape": (0, self._num_hidden), "__layout__": "NC"} for _ in range(self._states)]

    @property
    def _gate_names(self) -> Sequence[str]:
        return GATES[self._mode]

    def _next_name(self) -> str:
        self._counter += 1
        return f"{self._prefix}t{self._counter}_"

    def _gates(
        self, inputs: Symbol, states: Sequence[Symbol], i2h_name: str, h2h_name: str
    ) -> tuple[Any, Any]:
        units = self._num_hidden * len(self._gate_names)
        i2h = symbol.FullyConnected(
            data=inputs, weight=self._iW, bias=self._iB, num_hidden=units, name=i2h_name
        )
        h2h = symbol.FullyConnected(
            data=states[0], weight=self._hW, bias=self._hB, num_hidden=units, name=h2h_name
        )
        return i2h, h2h


class RNNCell(_DenseCell):
    """h' = activation(W x + b + R h + c).

    Args:
        num_hidden: units of output and state.
        activation: ``"tanh"``, ``"relu"`` or a function of a symbol and a name.
        prefix: of names.
        params: variables shared with other cells.
    """

    _mode = "rnn_tanh"

    def __init__(
        self,
        num_hidden: int,
        activation: Any = "tanh",
        prefix: str = "rnn_",
        params: RNNParams | None = None,
    ) -> None:
        super().__init__(num_hidden, prefix, params)
        self._activation = activation

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """Take one step."""
        name = self._next_name()
        i2h, h2h = self._gates(inputs, states, f"{name}i2h", f"{name}h2h")
        output = self._get_activation(i2h + h2h, self._activation, name=f"{name}out")
        return output, [output]


class LSTMCell(_DenseCell):
    """Long short-term memory (Hochreiter and Schmidhuber 1997); states are (h, c).

    Args:
        num_hidden: units of output and states.
        prefix: of names.
        params: variables shared with other cells.
        forget_bias: first value of the forget gate's bias (Jozefowicz et al. 2015).
    """

    _mode = "lstm"
    _states = 2

    def __init__(
        self,
        num_hidden: int,
        prefix: str = "lstm_",
        params: RNNParams | None = None,
        forget_bias: float = 1.0,
    ) -> None:
        super().__init__(num_hidden, prefix, params, LSTMBias(forget_bias=forget_bias))

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """Take one step."""
        name = self._next_name()
        i2h, h2h = self._gates(inputs, states, f"{name}i2h", f"{name}h2h")
        gates = symbol.SliceChannel(i2h + h2h, num_outputs=4, name=f"{name}slice")
        return lstm_step(self, gates, states[1], "tanh", name)


class GRUCell(_DenseCell):
    """Gated recurrent unit in cuDNN's form (the reset gate acts after the dense layer).

    Args:
        num_hidden: units of output and state.
        prefix: of names.
        params: variables shared with other cells.
    """

    _mode = "gru"

    def __init__(
        self, num_hidden: int, prefix: str = "gru_", params: RNNParams | None = None
    ) -> None:
        super().__init__(num_hidden, prefix, params)

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """Take one step."""
        name = self._next_name()
        # MXNet's names have two underscores here.
        i2h, h2h = self._gates(inputs, states, f"{name}_i2h", f"{name}_h2h")
        return gru_step(self, i2h, h2h, states[0], "tanh", name)


def lstm_step(
    cell: BaseRNNCell, gates: Any, memory: Symbol, activation: Any, name: str
) -> tuple[Symbol, list[Symbol]]:
    """Return the output and states of an LSTM from its four gates before their activations."""
    in_gate = symbol.Activation(gates[0], act_type="sigmoid", name=f"{name}i")
    forget_gate = symbol.Activation(gates[1], act_type="sigmoid", name=f"{name}f")
    candidate = cell._get_activation(gates[2], activation, name=f"{name}c")
    out_gate = symbol.Activation(gates[3], act_type="sigmoid", name=f"{name}o")
    # As functions, because these take names; + and * do not.
    plus, times = symbol._internal._plus, symbol._internal._mul
    next_c = plus(forget_gate * memory, in_gate * candidate, name=f"{name}state")
    next_h = times(out_gate, cell._get_activation(next_c, activation), name=f"{name}out")
    return next_h, [next_h, next_c]


def gru_step(
    cell: BaseRNNCell, i2h: Any, h2h: Any, state: Symbol, activation: Any, name: str
) -> tuple[Symbol, list[Symbol]]:
    """Return the output and state of a GRU from its gates before their activations."""
    i2h_r, i2h_z, i2h_o = symbol.SliceChannel(i2h, num_outputs=3, name=f"{name}_i2h_slice")
    h2h_r, h2h_z, h2h_o = symbol.SliceChannel(h2h, num_outputs=3, name=f"{name}_h2h_slice")
    reset = symbol.Activation(i2h_r + h2h_r, act_type="sigmoid", name=f"{name}_r_act")
    update = symbol.Activation(i2h_z + h2h_z, act_type="sigmoid", name=f"{name}_z_act")
    candidate = cell._get_activation(i2h_o + reset * h2h_o, activation, name=f"{name}_h_act")
    next_h = symbol._internal._plus((1.0 - update) * candidate, update * state, name=f"{name}out")
    return next_h, [next_h]
