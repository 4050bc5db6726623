"""Deformable convolutions, with the layer that computes their offsets."""

from __future__ import annotations

from typing import Any, ClassVar

from ....errors import UsageError
from ...hybrid_block import HybridBlock
from ...nn.convolutions import Lengths, describe_layer, per_axis
from ...nn.layers import Activation
from ...parameter_dict import ParameterDict

__all__ = ["DeformableConvolution", "ModulatedDeformableConvolution"]

_AXES = 2


class _Deformable(HybridBlock):
    """A deformable convolution; subclasses say what is learned for each point of the kernel.

    Args:
        channels: channels of the output.
        kernel_size, strides, padding, dilation: one number for both axes, or one for each.
        groups: number of groups of channels that are convolved separately.
        num_deformable_group: number of groups of channels with separate offsets.
        layout: ``"NCHW"``.
        use_bias: add a bias.
        in_channels: channels of the input; 0 infers them at the first call.
        activation: name of an activation function, if any.
        weight_initializer, bias_initializer: initializers or their names.
        offset_weight_initializer, offset_bias_initializer: those of the layer of the offsets.
        offset_use_bias: add a bias to the offsets.
        op_name, adj: MXNet's, of which only the defaults are possible.
        prefix, params: as for ``Block``.

    Raises:
        UsageError: another layout, operator or ``adj``; the number of lengths is wrong.
    """

    _operator: ClassVar[str]
    _numbers: ClassVar[int]
    """How many numbers the layer of the offsets gives for each point of the kernel."""

    def __init__(
        self,
        channels: int,
        kernel_size: Lengths = 1,
        strides: Lengths = 1,
        padding: Lengths = 0,
        dilation: Lengths = 1,
        groups: int = 1,
        num_deformable_group: int = 1,
        layout: str = "NCHW",
        use_bias: bool = True,
        in_channels: int = 0,
        activation: str | None = None,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        offset_weight_initializer: Any = "zeros",
        offset_bias_initializer: Any = "zeros",
        offset_use_bias: bool = True,
        op_name: str | None = None,
        adj: Any = None,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix, params)
        if layout != "NCHW" or adj or op_name not in (None, self._operator):
            raise UsageError(
                f"{type(self).__name__} is computed by {self._operator}, for the layout NCHW and "
                f"without adj; got op_name={op_name!r}, layout={layout!r}, adj={adj!r}"
            )
        kernel = per_axis("kernel_size", kernel_size, _AXES)
        common = {
            "kernel": kernel,
            "stride": per_axis("strides", strides, _AXES),
            "dilate": per_axis("dilation", dilation, _AXES),
            "pad": per_axis("padding", padding, _AXES),
            "num_group": groups,
            "layout": layout,
        }
        points = kernel[0] * kernel[1] * num_deformable_group
        self._channels, self._in_channels = channels, in_channels
        self._split = 2 * points
        self._kwargs_offset: dict[str, Any] = {
            **common,
            "num_filter": self._numbers * points,
            "no_bias": not offset_use_bias,
        }
        self._kwargs_deformable_conv: dict[str, Any] = {
            **common,
            "num_filter": channels,
            "num_deformable_group": num_deformable_group,
            "no_bias": not use_bias,
        }
        inner = in_channels // groups
        self.act: Activation | None = None
        with self.name_scope():
            self.offset_weight = self.params.get(
                "offset_weight",
                shape=(self._numbers * points, inner, *kernel),
                init=offset_weight_initializer,
                allow_deferred_init=True,
            )
            self.offset_bias = self._bias(
                "offset_bias", offset_use_bias, self._numbers * points, offset_bias_initializer
            )
            self.deformable_conv_weight = self.params.get(
                "deformable_conv_weight",
                shape=(channels, inner, *kernel),
                init=weight_initializer,
                allow_deferred_init=True,
            )
            self.deformable_conv_bias = self._bias(
                "deformable_conv_bias", use_bias, channels, bias_initializer
            )
            if activation:
                self.act = Activation(activation, prefix=f"{activation}_")

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the offsets, and sample where they point."""
        learned = F.Convolution(
            x, *_given(kwargs, "offset_weight", "offset_bias"), **self._kwargs_offset
        )
        found = getattr(F.contrib, self._operator)(
            x,
            *self._samples(F, learned),
            *_given(kwargs, "deformable_conv_weight", "deformable_conv_bias"),
            name="fwd",
            **self._kwargs_deformable_conv,
        )
        return found if self.act is None else self.act(found)

    def _samples(self, F: Any, learned: Any) -> list[Any]:
        """Return the operator's inputs from what the layer of the offsets gives."""
        raise NotImplementedError(f"{type(self).__name__} must define _samples")

    def _bias(self, name: str, is_used: bool, length: int, initializer: Any) -> Any:
        if not is_used:
            return None
        return self.params.get(name, shape=(length,), init=initializer, allow_deferred_init=True)

    def __repr__(self) -> str:
        channels = f"{(self.deformable_conv_weight.shape or (0, 0))[1] or None} -> {self._channels}"
        settings = self._kwargs_deformable_conv
        return describe_layer(self, channels, settings, self.deformable_conv_bias, self.act)


class DeformableConvolution(_Deformable):
    """A convolution whose points are moved by learned offsets (Dai et al. 2017, arXiv:1703.06211).

    The input is (batch, channels, height, width). Arguments are those of ``Conv2D``, with
    ``num_deformable_group`` and those of the layer that computes the offsets.
    """

    _operator = "DeformableConvolution"
    _numbers = 2

    def _samples(self, F: Any, learned: Any) -> list[Any]:
        return [learned]

    def _alias(self) -> str:
        return "deformable_conv"


class ModulatedDeformableConvolution(_Deformable):
    """A deformable convolution whose points also have learned weights between 0 and 2 (Zhu et al.
    2018, arXiv:1811.11168). Arguments are those of ``DeformableConvolution``."""

    _operator = "ModulatedDeformableConvolution"
    _numbers = 3

    def _samples(self, F: Any, learned: Any) -> list[Any]:
        offset = F.slice_axis(learned, axis=1, begin=0, end=self._split)
        mask = F.slice_axis(learned, axis=1, begin=self._split, end=None)
        return [offset, F.sigmoid(mask) * 2]

    def _alias(self) -> str:
        return "modulated_deformable_conv"


def _given(values: dict[str, Any], *names: str) -> list[Any]:
    return [values[name] for name in names if name in values]
