"""Layers of recurrent cells that run over whole sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from ... import ndarray, symbol
from ...ndarray import NDArray
from ..base_parameter import Parameter
from ..hybrid_block import HybridBlock
from .base_cell import make_state
from .cells import DenseCell, GRUCell, LSTMCell, RNNCell
from .containers import BidirectionalCell, HybridSequentialRNNCell
from .modifiers import DropoutCell

__all__ = ["GRU", "LSTM", "RNN"]

_UNCLIPPED: dict[str, Any] = {
    "lstm_state_clip_min": None,
    "lstm_state_clip_max": None,
    "lstm_state_clip_nan": False,
}


class _Layers(HybridBlock):
    """Layers of cells of one kind, one over the other.

    Called with sequences alone it returns the outputs of the last layer; with states, too, it
    returns these and the states after the last step.

    Args:
        hidden_size: length of each state.
        num_layers: how many layers.
        layout: ``"TNC"`` or ``"NTC"``: axes of time, batch and features.
        dropout: share of the outputs dropped between layers.
        bidirectional: whether each layer also runs from the end.
        input_size: features of the input; 0 to find out when it is first called.
        i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
            h2h_bias_initializer: initializers or their names.
        dtype: of the parameters.
        use_sequence_length: whether the layers are called with the lengths of the sequences, too.
        projection_size: length that outputs are projected to; None or 0 for no projection.
        h2r_weight_initializer: of the projection's weight.
        state_clip: arguments of ``RNN`` that say how the cells' memory is clipped.
        **kwargs: what all blocks take.

    Raises:
        AssertionError: another layout.
    """

    _gates: ClassVar[int]
    _states: ClassVar[int] = 1

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        input_size: int = 0,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        dtype: Any = "float32",
        use_sequence_length: bool = False,
        *,
        mode: str,
        projection_size: int | None = None,
        h2r_weight_initializer: Any = None,
        state_clip: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if layout not in ("TNC", "NTC"):
            raise AssertionError(f"Invalid layout {layout}; must be one of ['TNC' or 'NTC']")
        self._hidden_size, self._num_layers, self._layout = hidden_size, num_layers, layout
        self._dropout, self._dtype, self._mode = dropout, dtype, mode
        self._use_sequence_length = use_sequence_length
        self._projection_size = projection_size or None
        self._state_size = projection_size or hidden_size
        self._state_clip = {**_UNCLIPPED, **(state_clip or {})}
        self._input_size = input_size
        self._directions = "lr" if bidirectional else "l"
        first = {
            "i2h_weight": i2h_weight_initializer,
            "h2h_weight": h2h_weight_initializer,
            "i2h_bias": i2h_bias_initializer,
            "h2h_bias": h2h_bias_initializer,
        }
        self._initializers = {f"{part}_initializer": init for part, init in first.items()}
        parts = {**first, "h2r_weight": h2r_weight_initializer} if projection_size else first
        rows, given = self._gates * hidden_size, input_size
        for layer in range(num_layers):
            for direction in self._directions:
                shapes = {
                    "i2h_weight": (rows, given),
                    "h2h_weight": (rows, self._state_size),
                    "h2r_weight": (self._state_size, hidden_size),
                }
                for part, init in parts.items():
                    name = f"{direction}{layer}_{part}"
                    shape = shapes.get(part, (rows,))
                    parameter = self.params.get(
                        name, shape=shape, init=init, allow_deferred_init=True, dtype=dtype
                    )
                    setattr(self, name, parameter)
            given = self._state_size * len(self._directions)

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return shape, layout and dtype of each state."""
        count = self._num_layers * len(self._directions)
        return [
            {"shape": (count, batch_size, size), "__layout__": "LNC", "dtype": self._dtype}
            for size in (self._state_size, self._hidden_size)[: self._states]
        ]

    def begin_state(
        self, batch_size: int = 0, func: Callable[..., Any] = ndarray.zeros, **kwargs: Any
    ) -> list[Any]:
        """Return the states before the first step.

        Args:
            batch_size: how many sequences there are.
            func: makes a state from its shape.
            **kwargs: further arguments of ``func``, such as ``ctx``.
        """
        return [
            make_state(func, f"{self.prefix}h0_{number}", {**info, **kwargs})
            for number, info in enumerate(self.state_info(batch_size))
        ]

    def cast(self, dtype: Any) -> None:
        """Convert the parameters."""
        super().cast(dtype)
        self._dtype = dtype

    def infer_shape(self, *args: Any) -> None:
        """Find the shapes of the first layer's parameters from the sequences."""
        for direction in self._directions:
            parameter = getattr(self, f"{direction}0_i2h_weight")
            parameter.shape = (self._gates * self._hidden_size, args[0].shape[2])

    def __call__(self, inputs: Any, states: Any = None, sequence_length: Any = None) -> Any:
        """Return the outputs, and the last states if states are given."""
        given = states
        if given is None and isinstance(inputs, NDArray):
            size = inputs.shape[self._layout.index("N")]
            given = self.begin_state(size, ctx=inputs.context, dtype=inputs.dtype)
        elif given is None:
            given = self.begin_state(0, func=symbol.zeros)
        elif not isinstance(given, (list, tuple)):
            given = [given]
        lengths = [sequence_length] if self._use_sequence_length else []
        found = super().__call__(inputs, list(given), *lengths)
        return found[0] if states is None else found

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Run all layers over all steps.

        Raises:
            ValueError: a state has another shape.
        """
        states, *lengths = args
        if isinstance(x, NDArray):
            self._check_states(x, states)
        weights = ("i2h", "h2h", "h2r") if self._projection_size else ("i2h", "h2h")
        # cuDNN's order, in which the operator reads them: all weights, then all biases.
        joined = F._internal._rnn_param_concat(
            *[
                kwargs[f"{direction}{layer}_{source}_{kind}"].reshape((-1,))
                for kind, sources in (("weight", weights), ("bias", ("i2h", "h2h")))
                for layer in range(self._num_layers)
                for direction in self._directions
                for source in sources
            ],
            dim=0,
        )
        swaps = self._layout == "NTC"
        found = F.RNN(
            F.swapaxes(x, dim1=0, dim2=1) if swaps else x,
            joined,
            *states,
            *lengths,
            use_sequence_length=self._use_sequence_length,
            state_size=self._hidden_size,
            projection_size=self._projection_size,
            num_layers=self._num_layers,
            bidirectional=len(self._directions) == 2,
            p=self._dropout,
            state_outputs=True,
            mode=self._mode,
            **self._state_clip,
        )
        outputs = F.swapaxes(found[0], dim1=0, dim2=1) if swaps else found[0]
        return outputs, [found[1 + number] for number in range(self._states)]

    def _unfuse(self) -> HybridSequentialRNNCell:
        """Return the layers as cells that share the parameters.

        Raises:
            AssertionError: outputs are projected, or memory clipped, which such cells do not do.
        """
        if self._projection_size:
            raise AssertionError("_unfuse does not support projection layer yet!")
        if any(self._state_clip.get(f"lstm_state_clip_{end}") for end in ("min", "max")):
            raise AssertionError("_unfuse does not support state clipping yet!")
        stack = HybridSequentialRNNCell(prefix=self.prefix, params=self.params)
        features = self._input_size
        with stack.name_scope():
            for layer in range(self._num_layers):
                cells = [self._cell(f"{side}{layer}_", features) for side in self._directions]
                stack.add(cells[0] if len(cells) == 1 else BidirectionalCell(cells[0], cells[1]))
                if self._dropout > 0 and layer != self._num_layers - 1:
                    stack.add(DropoutCell(self._dropout))
                features = self._hidden_size * len(self._directions)
        return stack

    def _cell(self, prefix: str, features: int) -> DenseCell:
        options: dict[str, Any] = {"input_size": features, "prefix": prefix, **self._initializers}
        if self._mode.startswith("rnn_"):
            return RNNCell(self._hidden_size, self._mode.removeprefix("rnn_"), **options)
        return (LSTMCell if self._mode == "lstm" else GRUCell)(self._hidden_size, **options)

    def _check_states(self, x: NDArray, states: list[NDArray]) -> None:
        for state, info in zip(
            states, self.state_info(x.shape[self._layout.index("N")]), strict=True
        ):
            if state.shape != info["shape"]:
                raise ValueError(
                    f"Invalid recurrent state shape. Expecting {info['shape']}, got {state.shape}."
                )

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        # Files have the names that the same layers have as cells.
        start = f"{prefix}." if prefix else ""
        places = {}
        for name, parameter in self._reg_params.items():
            layer, part = name.split("_", 1)
            cell = f"{layer[0]}_cell." if len(self._directions) == 2 else ""
            places[f"{start}_unfused.{layer[1:]}.{cell}{part}"] = parameter
        return places

    def __repr__(self) -> str:
        rows, features = self._reg_params["l0_i2h_weight"].shape or (0, 0)
        parts = [f"{features or None} -> {rows // self._gates}", self._layout]
        if self._num_layers != 1:
            parts.append(f"num_layers={self._num_layers}")
        if self._dropout != 0:
            parts.append(f"dropout={self._dropout}")
        if len(self._directions) == 2:
            parts.append("bidirectional")
        return f"{type(self).__name__}({', '.join(parts)})"


class RNN(_Layers):
    """Plain recurrent layers, with ``activation`` ``"relu"`` or ``"tanh"``.

    By position, ``input_size`` follows the initializers, as in MXNet.
    """

    _gates = 1

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        activation: str = "relu",
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        dtype: Any = "float32",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            hidden_size,
            num_layers,
            layout,
            dropout,
            bidirectional,
            input_size,
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            dtype,
            mode=f"rnn_{activation}",
            **kwargs,
        )


class LSTM(_Layers):
    """Layers of long short-term memory; states are the outputs and the cells.

    Args:
        hidden_size: length of each cell's memory, and of its output if that is not projected.
        num_layers, layout, dropout, bidirectional, input_size, i2h_weight_initializer,
            h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer, dtype, **kwargs: as
            of the other layers.
        projection_size: length that outputs are projected to (Sak et al., arXiv:1402.1128).
        h2r_weight_initializer: of the projection's weight.
        state_clip_min, state_clip_max: range that the memory is clipped to after every step.
        state_clip_nan: whether clipping makes NaN the least value.
    """

    _gates, _states = 4, 2

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        input_size: int = 0,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        projection_size: int | None = None,
        h2r_weight_initializer: Any = None,
        state_clip_min: float | None = None,
        state_clip_max: float | None = None,
        state_clip_nan: bool = False,
        dtype: Any = "float32",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            hidden_size,
            num_layers,
            layout,
            dropout,
            bidirectional,
            input_size,
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            dtype,
            mode="lstm",
            projection_size=projection_size,
            h2r_weight_initializer=h2r_weight_initializer,
            state_clip={
                "lstm_state_clip_min": state_clip_min,
                "lstm_state_clip_max": state_clip_max,
                "lstm_state_clip_nan": state_clip_nan,
            },
            **kwargs,
        )


class GRU(_Layers):
    """Layers of gated recurrent units."""

    _gates = 3

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, mode="gru", **kwargs)
