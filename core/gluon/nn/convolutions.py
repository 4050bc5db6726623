"""Convolution layers and transposed convolutions over one to three axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ...errors import UsageError
from ..hybrid_block import HybridBlock
from ..parameter_dict import ParameterDict
from .layers import Activation

__all__ = ["Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose"]

Lengths = int | Sequence[int]


class _Conv(HybridBlock):
    """A convolution with its bias and activation, over as many axes as its kernel has.

    Public code derives layers of its own from this class of MXNet.

    Args:
        channels: channels of the output.
        kernel_size: lengths of the kernel.
        strides, padding, dilation: one number for all axes, or one for each.
        groups: number of groups of channels that are convolved separately.
        layout: the axes of data and weight.
        in_channels: channels of the input; 0 infers them at the first call.
        activation: name of an activation function, if any.
        use_bias: add a bias.
        weight_initializer, bias_initializer: initializers or their names.
        op_name: the operator.
        adj: its ``adj``, for transposed convolutions.
        prefix, params: as for ``Block``.

    Raises:
        UsageError: the number of lengths is wrong.
    """

    def __init__(
        self,
        channels: int,
        kernel_size: Sequence[int],
        strides: Lengths,
        padding: Lengths,
        dilation: Lengths,
        groups: int,
        layout: str,
        in_channels: int = 0,
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        op_name: str = "Convolution",
        adj: Sequence[int] | None = None,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix, params)
        self._channels, self._in_channels, self._op_name = channels, in_channels, op_name
        axes = len(kernel_size)
        self._kwargs: dict[str, Any] = {
            "kernel": tuple(kernel_size),
            "stride": per_axis("strides", strides, axes),
            "dilate": per_axis("dilation", dilation, axes),
            "pad": per_axis("padding", padding, axes),
            "num_filter": channels,
            "num_group": groups,
            "no_bias": not use_bias,
            "layout": layout,
        }
        if adj is not None:
            self._kwargs["adj"] = adj
        self.act: Activation | None = None
        with self.name_scope():
            self.weight = self.params.get(
                "weight",
                shape=self._weight_shape(),
                init=weight_initializer,
                allow_deferred_init=True,
            )
            self.bias = None
            if use_bias:
                self.bias = self.params.get(
                    "bias", shape=(channels,), init=bias_initializer, allow_deferred_init=True
                )
            if activation is not None:
                self.act = Activation(activation, prefix=f"{activation}_")

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply the layer."""
        inputs = [kwargs[name] for name in ("weight", "bias") if name in kwargs]
        found = getattr(F, self._op_name)(x, *inputs, name="fwd", **self._kwargs)
        return found if self.act is None else self.act(found)

    def _alias(self) -> str:
        return "conv"

    def _weight_shape(self) -> tuple[int, ...]:
        outer, inner = self._outer_and_inner()
        kernel, layout = self._kwargs["kernel"], self._kwargs["layout"]
        return (outer, inner, *kernel) if layout[1] == "C" else (outer, *kernel, inner)

    def _outer_and_inner(self) -> tuple[int, int]:
        """Return the lengths of the weight's first axis and of its other channel axis."""
        groups = self._kwargs["num_group"]
        if self._op_name == "Deconvolution":
            return self._in_channels, self._channels // groups
        return self._channels, self._in_channels // groups

    def __repr__(self) -> str:
        channels = f"{self._in_channels or None} -> {self._channels}"
        return describe_layer(self, channels, self._kwargs, self.bias, self.act)


def describe_layer(
    layer: object, channels: str, settings: Mapping[str, Any], bias: object, act: object
) -> str:
    """Return the text of a layer with a window, without settings that have their default.

    Args:
        layer: gives its class's name.
        channels: of its input and its output.
        settings: attributes of its operator.
        bias, act: None if it has none.
    """
    parts = [channels, f"kernel_size={settings['kernel']}", f"stride={settings['stride']}"]
    for word, name, default in (("padding", "pad", 0), ("dilation", "dilate", 1)):
        if any(value != default for value in settings[name]):
            parts.append(f"{word}={settings[name]}")
    if settings["num_group"] != 1:
        parts.append(f"groups={settings['num_group']}")
    if bias is None:
        parts.append("bias=False")
    if act is not None:
        parts.append(repr(act))
    return f"{type(layer).__name__}({', '.join(parts)})"


class _Convolution(_Conv):
    """A convolution; subclasses say of how many axes.

    Args:
        channels: channels of the output.
        kernel_size, strides, padding, dilation: one number for all axes, or one for each.
        groups: number of groups of channels that are convolved separately.
        layout: the axes of data and weight; by default channels come second.
        activation: name of an activation function, if any.
        use_bias: add a bias.
        weight_initializer, bias_initializer: initializers or their names.
        in_channels: channels of the input; 0 infers them at the first call.
        prefix, params: as for ``Block``.

    Raises:
        UsageError: the layer does not have this layout, or the number of lengths is wrong.
    """

    _axes: ClassVar[int]
    _layouts: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        channels: int,
        kernel_size: Lengths,
        strides: Lengths = 1,
        padding: Lengths = 0,
        dilation: Lengths = 1,
        groups: int = 1,
        layout: str | None = None,
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(
            channels,
            per_axis("kernel_size", kernel_size, self._axes),
            strides,
            padding,
            dilation,
            groups,
            checked_layout(self, layout, self._layouts),
            in_channels,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            prefix=prefix,
            params=params,
        )


class _Transposed(_Conv):
    """A transposed convolution; ``output_padding`` follows ``padding``.

    Args:
        output_padding: additional length of the output, beyond the shortest that gives this input.

    The other arguments are those of a convolution.
    """

    _axes: ClassVar[int]
    _layouts: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        channels: int,
        kernel_size: Lengths,
        strides: Lengths = 1,
        padding: Lengths = 0,
        output_padding: Lengths = 0,
        dilation: Lengths = 1,
        groups: int = 1,
        layout: str | None = None,
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        self.outpad = per_axis("output_padding", output_padding, self._axes)
        super().__init__(
            channels,
            per_axis("kernel_size", kernel_size, self._axes),
            strides,
            padding,
            dilation,
            groups,
            checked_layout(self, layout, self._layouts),
            in_channels,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            "Deconvolution",
            self.outpad,
            prefix,
            params,
        )


class Conv1D(_Convolution):
    __doc__ = f"A convolution over one axis, (batch, channels, width).\n{_Convolution.__doc__}"
    _axes, _layouts = 1, ("NCW",)


class Conv2D(_Convolution):
    __doc__ = f"A convolution over two axes, (batch, channels, h, w).\n{_Convolution.__doc__}"
    _axes, _layouts = 2, ("NCHW", "NHWC")


class Conv3D(_Convolution):
    __doc__ = f"A convolution over three axes, (batch, channels, d, h, w).\n{_Convolution.__doc__}"
    _axes, _layouts = 3, ("NCDHW", "NDHWC")


class Conv1DTranspose(_Transposed):
    __doc__ = f"A transposed convolution over one axis.\n{_Transposed.__doc__}"
    _axes, _layouts = 1, ("NCW",)


class Conv2DTranspose(_Transposed):
    __doc__ = f"A transposed convolution over two axes.\n{_Transposed.__doc__}"
    _axes, _layouts = 2, ("NCHW", "NHWC")


class Conv3DTranspose(_Transposed):
    __doc__ = f"A transposed convolution over three axes.\n{_Transposed.__doc__}"
    _axes, _layouts = 3, ("NCDHW", "NDHWC")


def per_axis(name: str, value: Lengths, axes: int) -> tuple[int, ...]:
    """Return one number for each axis.

    Raises:
        UsageError: their number is wrong.
    """
    lengths = (value,) * axes if isinstance(value, int) else tuple(value)
    if len(lengths) != axes:
        raise UsageError(f"{name} is {value!r}; expected a number or {axes} of them")
    return lengths


def checked_layout(layer: HybridBlock, layout: str | None, known: tuple[str, ...]) -> str:
    """Return a layout; the first known one if none is given.

    Raises:
        UsageError: a layout that the layer does not have.
    """
    if layout is None:
        return known[0]
    if layout not in known:
        raise UsageError(f"{type(layer).__name__} has layouts {', '.join(known)}, got {layout!r}")
    return layout
