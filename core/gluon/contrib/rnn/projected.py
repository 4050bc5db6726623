"""Long short-term memory whose output is projected (Sak et al., arXiv:1402.1128)."""

from __future__ import annotations

from typing import Any

from ...parameter_dict import ParameterDict
from ...rnn.cells import DenseCell

__all__ = ["LSTMPCell"]


class LSTMPCell(DenseCell):
    """Long short-term memory with a projected output; states are (the projection, c).

    Args:
        hidden_size: length of the memory.
        projection_size: length of output and first state.
        i2h_weight_initializer, h2h_weight_initializer, h2r_weight_initializer,
            i2h_bias_initializer, h2h_bias_initializer: initializers or their names.
        input_size: features of the input; 0 finds it at the first call.
        prefix, params: as of ``Block``.
    """

    _gates, _name_hint = 4, "lstmp"

    def __init__(
        self,
        hidden_size: int,
        projection_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        h2r_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        self._projection_size, self._h2r_init = projection_size, h2r_weight_initializer
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

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """(batch, projection_size) and (batch, hidden_size)."""
        widths = (self._projection_size, self._hidden_size)
        return [{"shape": (batch_size, width), "__layout__": "NC"} for width in widths]

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Take one step."""
        (states,) = args
        prefix = f"t{self._counter}_"
        i2h, h2h = self._dense(F, x, states[0], kwargs, prefix)
        gates = F.SliceChannel(i2h + h2h, num_outputs=4, name=f"{prefix}slice")
        write = F.Activation(gates[0], act_type="sigmoid", name=f"{prefix}i")
        forget = F.Activation(gates[1], act_type="sigmoid", name=f"{prefix}f")
        candidate = F.Activation(gates[2], act_type="tanh", name=f"{prefix}c")
        show = F.Activation(gates[3], act_type="sigmoid", name=f"{prefix}o")
        memory = F.elemwise_add(forget * states[1], write * candidate, name=f"{prefix}state")
        shown = F.Activation(memory, act_type="tanh")
        hidden = F.elemwise_mul(show, shown, name=f"{prefix}hidden")
        output = F.FullyConnected(
            data=hidden,
            num_hidden=self._projection_size,
            weight=kwargs["h2r_weight"],
            no_bias=True,
            name=f"{prefix}out",
        )
        return output, [output, memory]

    def _make_state_weights(self, rows: int, init: Any) -> None:
        size = self._projection_size
        self.h2h_weight = self._make("h2h_weight", (rows, size), init)
        self.h2r_weight = self._make("h2r_weight", (size, self._hidden_size), self._h2r_init)

    def _sizes(self) -> str:
        return f"{super()._sizes()} -> {self._projection_size}"
