"""Recurrent cells over signals, images and volumes: convolutions in place of dense layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ....errors import UsageError
from ...parameter_dict import ParameterDict
from ...rnn.base_cell import HybridRecurrentCell

__all__ = [
    "Conv1DGRUCell",
    "Conv1DLSTMCell",
    "Conv1DRNNCell",
    "Conv2DGRUCell",
    "Conv2DLSTMCell",
    "Conv2DRNNCell",
    "Conv3DGRUCell",
    "Conv3DLSTMCell",
    "Conv3DRNNCell",
]

Sizes = int | Sequence[int]


class _ConvCell(HybridRecurrentCell):
    """A cell whose gates are convolutions of the input and of the first state.

    Args:
        input_shape: of one example at one step in ``conv_layout``, without the batch.
        hidden_channels: channels of output and states.
        i2h_kernel, i2h_pad, i2h_dilate: of the convolution over the input.
        h2h_kernel, h2h_dilate: of the convolution over the state; odd, so that its size stays.
        i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
            h2h_bias_initializer: initializers or their names.
        conv_layout: ``"NCW"`` or ``"NWC"``, and so for more dimensions; by default channels come
            second.
        activation: its name, or a block.
        prefix, params: as of ``Block``.

    Raises:
        UsageError: a setting has another number of dimensions, or ``h2h_kernel`` is even.
    """

    _gates: ClassVar[int]
    _states: ClassVar[int] = 1
    _name_hint: ClassVar[str]
    _dims: ClassVar[int]

    def __init__(
        self,
        input_shape: Sequence[int],
        hidden_channels: int,
        i2h_kernel: Sizes,
        h2h_kernel: Sizes,
        i2h_pad: Sizes = 0,
        i2h_dilate: Sizes = 1,
        h2h_dilate: Sizes = 1,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        conv_layout: str | None = None,
        activation: Any = "tanh",
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix, params)
        layout = "NC" + "DHW"[-self._dims :] if conv_layout is None else conv_layout
        self._input_shape, self._hidden_channels = tuple(input_shape), hidden_channels
        self._conv_layout, self._activation = layout, activation
        self._channel_axis = layout.find("C")
        kernel, state_kernel = self._sizes(i2h_kernel), self._sizes(h2h_kernel)
        if any(size % 2 == 0 for size in state_kernel):
            raise UsageError(f"Only support odd number, get h2h_kernel= {h2h_kernel}")
        self._i2h = self._convolution(kernel, self._sizes(i2h_pad), self._sizes(i2h_dilate))
        dilate = self._sizes(h2h_dilate)
        # "Same" padding: the convolved state has the size of the state.
        pad = tuple(by * (size - 1) // 2 for by, size in zip(dilate, state_kernel, strict=True))
        self._h2h = self._convolution(state_kernel, pad, dilate)
        channels = self._input_shape[self._channel_axis - 1]
        for part, size, features, weight, bias in (
            ("i2h", kernel, channels, i2h_weight_initializer, i2h_bias_initializer),
            ("h2h", state_kernel, hidden_channels, h2h_weight_initializer, h2h_bias_initializer),
        ):
            rows = hidden_channels * self._gates
            shapes = (rows, *self._with_channels(features, size)), (rows,)
            for kind, shape, init in zip(("weight", "bias"), shapes, (weight, bias), strict=True):
                name = f"{part}_{kind}"
                made = self.params.get(name, shape=shape, init=init, allow_deferred_init=True)
                setattr(self, name, made)

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """(batch, hidden_channels, ...) of each state, in the cell's layout."""
        spatial = self._input_shape[1:] if self._channel_axis == 1 else self._input_shape[:-1]
        sizes = tuple(
            size and size + 2 * pad - dilate * (kernel - 1)  # 0 is unknown, and stays so
            for size, kernel, pad, dilate in zip(
                spatial, self._i2h["kernel"], self._i2h["pad"], self._i2h["dilate"], strict=True
            )
        )
        shape = (batch_size, *self._with_channels(self._hidden_channels, sizes))
        return [{"shape": shape, "__layout__": self._conv_layout} for _ in range(self._states)]

    def _sizes(self, given: Sizes) -> tuple[int, ...]:
        sizes = (given,) * self._dims if isinstance(given, int) else tuple(given)
        if len(sizes) != self._dims:
            raise UsageError(
                f"For {self._dims}D convolution, the convolution settings can only be either int "
                f"or list/tuple of length {self._dims}, got {given}"
            )
        return sizes

    def _with_channels(self, channels: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
        return (channels, *sizes) if self._channel_axis == 1 else (*sizes, channels)

    def _convolution(
        self, kernel: tuple[int, ...], pad: tuple[int, ...], dilate: tuple[int, ...]
    ) -> dict[str, Any]:
        return {
            "num_filter": self._hidden_channels * self._gates,
            "kernel": kernel,
            "stride": (1,) * self._dims,
            "pad": pad,
            "dilate": dilate,
            "layout": self._conv_layout,
        }

    def _convolved(
        self, F: Any, x: Any, state: Any, parameters: dict[str, Any], prefix: str
    ) -> tuple[Any, Any]:
        """Return all gates' shares of the input and of the state."""
        of_input, of_state = (
            F.Convolution(
                data=data,
                weight=parameters[f"{part}_weight"],
                bias=parameters[f"{part}_bias"],
                name=f"{prefix}{part}",
                **settings,
            )
            for data, part, settings in ((x, "i2h", self._i2h), (state, "h2h", self._h2h))
        )
        return of_input, of_state

    def _alias(self) -> str:
        return self._name_hint

    def __repr__(self) -> str:
        shape = self._reg_params["i2h_weight"].shape or ()
        channels = shape[1 if self._channel_axis == 1 else -1]
        sizes = f"{channels or None} -> {shape[0]}"
        return f"{type(self).__name__}({sizes}, {self._activation}, {self._conv_layout})"


class _ConvRNNCell(_ConvCell):
    _gates, _name_hint = 1, "conv_rnn"

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Take one step."""
        (states,) = args
        prefix = f"t{self._counter}_"
        i2h, h2h = self._convolved(F, x, states[0], kwargs, prefix)
        output = self._get_activation(F, i2h + h2h, self._activation, name=f"{prefix}out")
        return output, [output]


class _ConvLSTMCell(_ConvCell):
    _gates, _states, _name_hint = 4, 2, "conv_lstm"

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Take one step."""
        (states,) = args
        prefix = f"t{self._counter}_"
        i2h, h2h = self._convolved(F, x, states[0], kwargs, prefix)
        gates = F.SliceChannel(
            i2h + h2h, num_outputs=4, name=f"{prefix}slice", axis=self._channel_axis
        )
        write = F.Activation(gates[0], act_type="sigmoid", name=f"{prefix}i")
        forget = F.Activation(gates[1], act_type="sigmoid", name=f"{prefix}f")
        candidate = self._get_activation(F, gates[2], self._activation, name=f"{prefix}c")
        show = F.Activation(gates[3], act_type="sigmoid", name=f"{prefix}o")
        memory = F.elemwise_add(forget * states[1], write * candidate, name=f"{prefix}state")
        shown = self._get_activation(F, memory, self._activation)
        output = F.elemwise_mul(show, shown, name=f"{prefix}out")
        return output, [output, memory]


class _ConvGRUCell(_ConvCell):
    _gates, _name_hint = 3, "conv_gru"

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Take one step."""
        (states,) = args
        prefix = f"t{self._counter}_"
        i2h, h2h = self._convolved(F, x, states[0], kwargs, prefix)
        (i2h_r, i2h_z, i2h), (h2h_r, h2h_z, h2h) = (
            F.SliceChannel(
                part, num_outputs=3, name=f"{prefix}{name}_slice", axis=self._channel_axis
            )
            for part, name in ((i2h, "i2h"), (h2h, "h2h"))
        )
        reset = F.Activation(i2h_r + h2h_r, act_type="sigmoid", name=f"{prefix}r_act")
        update = F.Activation(i2h_z + h2h_z, act_type="sigmoid", name=f"{prefix}z_act")
        candidate = self._get_activation(
            F, i2h + reset * h2h, self._activation, name=f"{prefix}h_act"
        )
        new, kept = (1.0 - update) * candidate, update * states[0]
        output = F.elemwise_add(new, kept, name=f"{prefix}out")
        return output, [output]


class Conv1DRNNCell(_ConvRNNCell):
    """``RNNCell`` over (batch, channels, width)."""

    _dims = 1


class Conv2DRNNCell(_ConvRNNCell):
    """``RNNCell`` over (batch, channels, height, width)."""

    _dims = 2


class Conv3DRNNCell(_ConvRNNCell):
    """``RNNCell`` over (batch, channels, depth, height, width)."""

    _dims = 3


class Conv1DLSTMCell(_ConvLSTMCell):
    """``LSTMCell`` over (batch, channels, width) (Shi et al., arXiv:1506.04214)."""

    _dims = 1


class Conv2DLSTMCell(_ConvLSTMCell):
    """``LSTMCell`` over (batch, channels, height, width) (Shi et al., arXiv:1506.04214)."""

    _dims = 2


class Conv3DLSTMCell(_ConvLSTMCell):
    """``LSTMCell`` over (batch, channels, depth, height, width)."""

    _dims = 3


class Conv1DGRUCell(_ConvGRUCell):
    """``GRUCell`` over (batch, channels, width)."""

    _dims = 1


class Conv2DGRUCell(_ConvGRUCell):
    """``GRUCell`` over (batch, channels, height, width)."""

    _dims = 2


class Conv3DGRUCell(_ConvGRUCell):
    """``GRUCell`` over (batch, channels, depth, height, width)."""

    _dims = 3
