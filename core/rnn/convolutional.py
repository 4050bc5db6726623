"""Recurrent cells over images: convolutions in place of dense layers."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from .. import symbol
from ..errors import UsageError
from ..ops.rnn_packing import GATES
from ..symbol import Symbol
from .base import BaseRNNCell, RNNParams
from .cells import gru_step, lstm_step

__all__ = ["BaseConvRNNCell", "ConvGRUCell", "ConvLSTMCell", "ConvRNNCell"]

Pair = tuple[int, int]
LEAKY = functools.partial(symbol.LeakyReLU, act_type="leaky", slope=0.2)


class BaseConvRNNCell(BaseRNNCell):
    """Base of the convolutional cells; a subclass names its gates and takes its step.

    Args:
        input_shape: of one step, (batch, channels, height, width) in ``conv_layout``.
        num_hidden: channels of output and states.
        h2h_kernel, h2h_dilate: of the convolution over the state; odd, so that its size stays.
        i2h_kernel, i2h_stride, i2h_pad, i2h_dilate: of the convolution over the input.
        i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer,
            h2h_bias_initializer: of the parameters.
        activation: a name or a function of a symbol and a name; leaky ReLU of slope 0.2.
        prefix: of names.
        params: variables shared with other cells.
        conv_layout: ``"NCHW"`` or ``"NHWC"``.
    """

    _mode = "rnn_tanh"
    _states = 1
    _default_prefix = ""

    def __init__(
        self,
        input_shape: tuple[int, ...],
        num_hidden: int,
        h2h_kernel: Pair = (3, 3),
        h2h_dilate: Pair = (1, 1),
        i2h_kernel: Pair = (3, 3),
        i2h_stride: Pair = (1, 1),
        i2h_pad: Pair = (1, 1),
        i2h_dilate: Pair = (1, 1),
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        activation: Any = LEAKY,
        prefix: str | None = None,
        params: RNNParams | None = None,
        conv_layout: str = "NCHW",
    ) -> None:
        super().__init__(self._default_prefix if prefix is None else prefix, params)
        if h2h_kernel[0] % 2 != 1 or h2h_kernel[1] % 2 != 1:
            raise UsageError(f"h2h_kernel is {h2h_kernel}; only odd sizes keep the state's size")
        self._num_hidden = num_hidden
        self._input_shape = input_shape
        self._conv_layout = conv_layout
        self._activation = activation
        self._i2h: dict[str, Any] = {
            "kernel": i2h_kernel,
            "stride": i2h_stride,
            "pad": i2h_pad,
            "dilate": i2h_dilate,
            "layout": conv_layout,
        }
        self._h2h: dict[str, Any] = {
            "kernel": h2h_kernel,
            "stride": (1, 1),
            "pad": tuple(
                dilate * (kernel - 1) // 2
                for kernel, dilate in zip(h2h_kernel, h2h_dilate, strict=True)
            ),
            "dilate": h2h_dilate,
            "layout": conv_layout,
        }
        probe = symbol.Convolution(data=symbol.Variable("data"), num_filter=num_hidden, **self._i2h)
        self._state_shape = (0, *probe.infer_shape(data=input_shape)[1][0][1:])
        variables = self._params
        self._iW = variables.get("i2h_weight", init=i2h_weight_initializer)
        self._hW = variables.get("h2h_weight", init=h2h_weight_initializer)
        self._iB = variables.get("i2h_bias", init=i2h_bias_initializer)
        self._hB = variables.get("h2h_bias", init=h2h_bias_initializer)

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """(batch, num_hidden, height, width) of each state, in the cell's layout."""
        info = {"shape": self._state_shape, "__layout__": self._conv_layout}
        return [dict(info) for _ in range(self._states)]

    @property
    def _gate_names(self) -> Sequence[str]:
        return GATES[self._mode]

    def _conv_forward(self, inputs: Symbol, states: Sequence[Symbol], name: str) -> Any:
        filters = self._num_hidden * len(self._gate_names)
        i2h = symbol.Convolution(
            name=f"{name}i2h",
            data=inputs,
            weight=self._iW,
            bias=self._iB,
            num_filter=filters,
            **self._i2h,
        )
        h2h = symbol.Convolution(
            name=f"{name}h2h",
            data=states[0],
            weight=self._hW,
            bias=self._hB,
            num_filter=filters,
            **self._h2h,
        )
        return i2h, h2h

    def _next_name(self) -> str:
        self._counter += 1
        return f"{self._prefix}t{self._counter}_"


class ConvRNNCell(BaseConvRNNCell):
    """Convolutional ``RNNCell``; arguments as of the base."""

    _default_prefix = "ConvRNN_"

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """Take one step."""
        name = self._next_name()
        i2h, h2h = self._conv_forward(inputs, states, name)
        output = self._get_activation(i2h + h2h, self._activation, name=f"{name}out")
        return output, [output]


class ConvLSTMCell(BaseConvRNNCell):
    """Convolutional ``LSTMCell`` (Shi et al., arXiv:1506.04214); arguments as of the base."""

    _default_prefix = "ConvLSTM_"
    _mode = "lstm"
    _states = 2

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """Take one step."""
        name = self._next_name()
        i2h, h2h = self._conv_forward(inputs, states, name)
        axis = self._conv_layout.find("C")
        gates = symbol.SliceChannel(i2h + h2h, num_outputs=4, axis=axis, name=f"{name}slice")
        return lstm_step(self, gates, states[1], self._activation, name)


class ConvGRUCell(BaseConvRNNCell):
    """Convolutional ``GRUCell``; arguments as of the base."""

    _default_prefix = "ConvGRU_"
    _mode = "gru"

    def __call__(self, inputs: Symbol, states: Sequence[Symbol]) -> tuple[Symbol, list[Symbol]]:
        """Take one step."""
        name = self._next_name()
        i2h, h2h = self._conv_forward(inputs, states, name)
        return gru_step(self, i2h, h2h, states[0], self._activation, name)
