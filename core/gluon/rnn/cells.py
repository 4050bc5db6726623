"""The cells of gluon that take one step: plain, LSTM and GRU."""

from __future__ import annotations

from typing import Any, ClassVar

from ..parameter_dict import ParameterDict
from .base_cell import HybridRecurrentCell

__all__ = ["DenseCell", "GRUCell", "LSTMCell", "RNNCell"]


class DenseCell(HybridRecurrentCell):
    """A cell whose gates are dense layers of the input and of the first state.

    Args:
        hidden_size: length of output and states.
        i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
            h2h_bias_initializer: initializers or their names, of the layers from the input and
            from the state.
        input_size: features of the input; 0 finds it at the first call.
        prefix, params: as of ``Block``.
    """

    _gates: ClassVar[int]
    _states: ClassVar[int] = 1
    _name_hint: ClassVar[str]

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix, params)
        self._hidden_size, self._input_size = hidden_size, input_size
        rows = self._gates * hidden_size
        self.i2h_weight = self._make("i2h_weight", (rows, input_size), i2h_weight_initializer)
        self._make_state_weights(rows, h2h_weight_initializer)
        self.i2h_bias = self._make("i2h_bias", (rows,), i2h_bias_initializer)
        self.h2h_bias = self._make("h2h_bias", (rows,), h2h_bias_initializer)

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """(batch, hidden_size) of each state."""
        shape = (batch_size, self._hidden_size)
        return [{"shape": shape, "__layout__": "NC"} for _ in range(self._states)]

    def _make_state_weights(self, rows: int, init: Any) -> None:
        self.h2h_weight = self._make("h2h_weight", (rows, self._hidden_size), init)

    def _make(self, name: str, shape: tuple[int, ...], init: Any) -> Any:
        return self.params.get(name, shape=shape, init=init, allow_deferred_init=True)

    def _alias(self) -> str:
        return self._name_hint

    def _dense(
        self, F: Any, x: Any, state: Any, parameters: dict[str, Any], prefix: str
    ) -> tuple[Any, Any]:
        """Return all gates' shares of the input and of the state."""
        units = self._hidden_size * self._gates
        of_input, of_state = (
            F.FullyConnected(
                data=data,
                weight=parameters[f"{part}_weight"],
                bias=parameters[f"{part}_bias"],
                num_hidden=units,
                name=f"{prefix}{part}",
            )
            for data, part in ((x, "i2h"), (state, "h2h"))
        )
        return of_input, of_state

    def _sizes(self) -> str:
        rows, features = self.i2h_weight.shape
        return f"{features or None} -> {rows}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._sizes()})"


class RNNCell(DenseCell):
    """h' = activation(W x + b + R h + c).

    Args:
        hidden_size: length of output and state.
        activation: its name, or a block.
        i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
            h2h_bias_initializer: initializers or their names.
        input_size: features of the input; 0 finds it at the first call.
        prefix, params: as of ``Block``.
    """

    _gates, _name_hint = 1, "rnn"

    def __init__(
        self, hidden_size: int, activation: Any = "tanh", *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(hidden_size, *args, **kwargs)
        self._activation = activation

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Take one step."""
        (states,) = args
        prefix = f"t{self._counter}_"
        i2h, h2h = self._dense(F, x, states[0], kwargs, prefix)
        total = F.elemwise_add(i2h, h2h, name=f"{prefix}plus0")
        output = self._get_activation(F, total, self._activation, name=f"{prefix}out")
        return output, [output]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._sizes()}, {self._activation})"


class LSTMCell(DenseCell):
    """Long short-term memory (Hochreiter and Schmidhuber 1997); states are (h, c).

    Args:
        hidden_size: length of output and states.
        i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
            h2h_bias_initializer: initializers or their names.
        input_size: features of the input; 0 finds it at the first call.
        prefix, params: as of ``Block``.
        activation: of what is written to the memory and read from it.
        recurrent_activation: of the gates.
    """

    _gates, _states, _name_hint = 4, 2, "lstm"

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
    ) -> None:
        super().__init__(
            hidden_size,
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            input_size,
            prefix,
            params,
        )
        self._activation, self._recurrent_activation = activation, recurrent_activation

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Take one step."""
        (states,) = args
        prefix = f"t{self._counter}_"
        i2h, h2h = self._dense(F, x, states[0], kwargs, prefix)
        total = F.elemwise_add(i2h, h2h, name=f"{prefix}plus0")
        # In the order of the weights' rows, which is cuDNN's: input, forget, cell, output.
        gates = F.SliceChannel(total, num_outputs=4, name=f"{prefix}slice")
        write, forget, candidate, show = (
            self._get_activation(F, gate, activation, name=f"{prefix}{name}")
            for gate, activation, name in zip(
                gates,
                (*[self._recurrent_activation] * 2, self._activation, self._recurrent_activation),
                "ifco",
                strict=True,
            )
        )
        kept = F.elemwise_mul(forget, states[1], name=f"{prefix}mul0")
        written = F.elemwise_mul(write, candidate, name=f"{prefix}mul1")
        memory = F.elemwise_add(kept, written, name=f"{prefix}state")
        name = f"{prefix}activation0"
        if isinstance(self._activation, str):
            shown = F.Activation(memory, act_type=self._activation, name=name)
        else:
            shown = self._get_activation(F, memory, self._activation, name=name)
        output = F.elemwise_mul(show, shown, name=f"{prefix}out")
        return output, [output, memory]


class GRUCell(DenseCell):
    """Gated recurrent unit in cuDNN's form (the reset gate acts after the dense layer).

    Args:
        hidden_size: length of output and state.
        i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
            h2h_bias_initializer: initializers or their names.
        input_size: features of the input; 0 finds it at the first call.
        prefix, params: as of ``Block``.
    """

    _gates, _name_hint = 3, "gru"

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Take one step."""
        (states,) = args
        prefix = f"t{self._counter}_"
        i2h, h2h = self._dense(F, x, states[0], kwargs, prefix)
        i2h_r, i2h_z, i2h = F.SliceChannel(i2h, num_outputs=3, name=f"{prefix}i2h_slice")
        h2h_r, h2h_z, h2h = F.SliceChannel(h2h, num_outputs=3, name=f"{prefix}h2h_slice")
        reset = F.elemwise_add(i2h_r, h2h_r, name=f"{prefix}plus0")
        reset = F.Activation(reset, act_type="sigmoid", name=f"{prefix}r_act")
        update = F.elemwise_add(i2h_z, h2h_z, name=f"{prefix}plus1")
        update = F.Activation(update, act_type="sigmoid", name=f"{prefix}z_act")
        past = F.elemwise_mul(reset, h2h, name=f"{prefix}mul0")
        candidate = F.elemwise_add(i2h, past, name=f"{prefix}plus2")
        candidate = F.Activation(candidate, act_type="tanh", name=f"{prefix}h_act")
        ones = F.ones_like(update, name=f"{prefix}ones_like0")
        rest = F.elemwise_sub(ones, update, name=f"{prefix}minus0")
        new = F.elemwise_mul(rest, candidate, name=f"{prefix}mul1")
        kept = F.elemwise_mul(update, states[0], name=f"{prefix}mul20")  # MXNet's name, too
        output = F.elemwise_add(new, kept, name=f"{prefix}out")
        return output, [output]
