"""Layers fused by MXNet's oneDNN backend, in float32 and on bytes.

Their subgraph defines what they compute. Redundant attributes such as ``with_bn``, which vary
between MXNet's versions, must agree with it.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, ClassVar

from ...capabilities import layers
from ...capabilities import quantized as kinds
from ...capabilities.functions import Function
from ...capabilities.kinds import Kind, implements
from ...capabilities.layers import LayerData
from ...errors import AttributeValueError
from ...types import Array, DType, Shape
from ..attributes import attribute
from ..norm import BatchNorm
from ..operator import Operator, Run
from ..registry import declares_attributes, get_operator, register
from ..subgraph import Subgraph
from .base import (
    FLOAT32,
    INT8,
    INT32,
    UINT8,
    Calibrated,
    Quantized,
    calibration,
)
from .fused_bytes import ByteConvolution, ByteProduct, folded, weight_scales
from .stages import Stages

__all__ = ["FusedLayer", "SubgraphConvolution", "SubgraphFullyConnected"]


@declares_attributes
class FusedLayer(Calibrated, Quantized, abc.ABC):
    """Base of both layers. They are for inference only, so batch norms use the moving averages."""

    graph_names: ClassVar[tuple[str, ...]] = ("layer",)
    layer_kind: ClassVar[Kind[Any]]
    """The kind of the first operator of the subgraph."""

    quantized: bool = attribute(False, doc="whether data is bytes")
    min_calib_range: float | None = calibration("smallest")
    max_calib_range: float | None = calibration("largest")
    subgraphs: tuple[Subgraph, ...] = attribute((), is_graphs=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.subgraphs) != 1:
            raise AttributeValueError(
                f"has {len(self.subgraphs)} subgraphs; expected 1: the layer and its fused stages"
            )
        stages = self.stages
        if self.quantized:
            self.check_bytes(stages)
        for flag, is_there in self.flags(stages).items():
            said = [name for name in flag.split() if getattr(self, name)]
            if bool(said) is not is_there:
                raise AttributeValueError(
                    f"{' and '.join(flag.split())}: {', '.join(said) or 'none'} is True, but its "
                    f"subgraph has {'such a' if is_there else 'no such'} stage"
                )

    @abc.abstractmethod
    def flags(self, stages: Stages) -> dict[str, bool]:
        """Return for each group of attributes that announce a stage whether the stage exists."""

    @abc.abstractmethod
    def check_bytes(self, stages: Stages) -> None:
        """Raise AttributeValueError if the stages are not supported on bytes."""

    @functools.cached_property
    def stages(self) -> Stages:
        """The stages of its subgraph."""
        return Stages.of(self.subgraphs[0], self.layer_kind)

    def nested_graphs(self) -> tuple[Subgraph, ...]:
        return self.subgraphs

    def tensor_names(self) -> tuple[str, ...]:
        return self.stages.tensor_names()

    def data_from_weight(self, weight: Shape) -> LayerData | None:
        layer: Operator = self.stages.layer
        return layer.data_from_weight(weight)

    def auxiliary_names(self) -> tuple[str, ...]:
        return ("mean", "var") if self.stages.norm is not None else ()

    def opened(self) -> Sequence[tuple[Operator, tuple[int, ...]]]:
        if self.quantized:
            return ()
        stages, count = self.stages, len(self.stages.layer.input_names())
        parts: list[tuple[Operator, tuple[int, ...]]] = [(stages.layer, tuple(range(count)))]
        if stages.norm is not None:
            parts.append((self.inference_norm, tuple(range(count, count + 4))))
        if stages.activation is not None:
            parts.append((stages.activation, ()))
        if stages.has_sum:
            parts.append((get_operator("elemwise_add")(), (len(self.tensor_names()) - 1,)))
        if stages.last_activation is not None:
            parts.append((stages.last_activation, ()))
        return parts

    @property
    def target(self) -> DType:
        """Dtype of the output."""
        if not self.quantized:
            return FLOAT32
        if not self.is_calibrated:
            return INT32
        return UINT8 if self.stages.ends_above_zero else INT8

    def infer_tensor_shapes(
        self, tensors: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        return self.subgraphs[0].infer_shapes(tensors, outputs)

    def infer_tensor_dtypes(
        self, tensors: list[DType | None], output: DType | None
    ) -> tuple[list[DType | None], DType | None]:
        names = self.tensor_names()
        found = [
            self.expect_bytes(name, dtype)
            if self.quantized and name in ("data", "sum")
            else self.expect_dtype(name, dtype, self.parameter_dtype)
            for name, dtype in zip(names, tensors, strict=True)
        ]
        return found, self.expect_dtype("output", output, self.target)

    @property
    def parameter_dtype(self) -> DType:
        """Dtype of weight and bias."""
        return FLOAT32

    def folded(self, xp: Any, parameters: Sequence[Array]) -> tuple[Array, Array | None]:
        """Return the layer's weight and bias with the batch norm folded in."""
        return folded(xp, self.stages, parameters)

    def weight_scales(self, xp: Any, weight: Array) -> Array:
        """Return the quantization scales of the weights, for each channel or (1,)."""
        return weight_scales(xp, weight, by_channel=self.target != INT32)

    def forward_floats(self, run: Run, inputs: Sequence[Array], out: Array) -> None:
        """Run the stages in order, each in place of its input."""
        stages, count = self.stages, len(self.stages.layer.input_names())
        stages.layer.forward(run, inputs[:count], [out])
        if stages.norm is not None:
            vectors = inputs[count : count + 4]
            statistics = [run.scratch(vectors[0].shape, FLOAT32) for _ in range(2)]
            self.inference_norm.forward(run, [out, *vectors], [out, *statistics])
        _apply(run, stages.activation, out)
        if stages.has_sum:
            run.xp.add(out, inputs[-1], out=out)
            _apply(run, stages.last_activation, out)

    @functools.cached_property
    def inference_norm(self) -> BatchNorm:
        """The batch norm, of a layer that has one, set to use the moving averages in any mode."""
        assert self.stages.norm is not None
        return dataclasses.replace(self.stages.norm, use_global_stats=True)


def _is_linear_above_zero(activation: Operator) -> bool:
    """Return whether a positive factor may be applied before or after the activation."""
    function = activation.pointwise()
    return function is not None and function.function is Function.RELU


def _apply(run: Run, activation: Operator | None, out: Array) -> None:
    if activation is None:
        return
    source = run.scratch(out.shape, out.dtype)
    run.xp.copyto(source, out)
    activation.forward(run, [source], [out])


@register("_sg_mkldnn_conv")
@implements(kinds.FUSED_CONVOLUTION)
class SubgraphConvolution(FusedLayer):
    """A convolution with optional batch norm, activation, residual and second activation.

    If ``quantized``, data and residual are bytes; weights stay float32 and are quantized when they
    change. If the output's range is known, each output channel has a separate scale and the output
    is bytes; otherwise it is int32 sums.
    """

    layer_kind: ClassVar[Kind[Any]] = layers.CONVOLUTION
    all_inputs: ClassVar[tuple[str, ...]] = (
        *("data", "weight", "bias", "gamma", "beta", "mean", "var", "sum"),
        *("min_data", "max_data", "min_sum", "max_sum"),
    )

    with_bn: bool = attribute(False, doc="whether there is a batch norm")
    with_act: bool = attribute(False, doc="whether an activation precedes the sum")
    with_relu: bool = attribute(False, doc="``with_act`` for a ReLU, before MXNet 1.5.1")
    with_sum: bool = attribute(False, doc="whether a residual is added")
    with_postsum_act: bool = attribute(False, doc="whether an activation follows the sum")
    with_postsum_relu: bool = attribute(False, doc="the same for a ReLU, before MXNet 1.5.1")

    def flags(self, stages: Stages) -> dict[str, bool]:
        return {
            "with_bn": stages.norm is not None,
            "with_act with_relu": stages.activation is not None,
            "with_sum": stages.has_sum,
            "with_postsum_act with_postsum_relu": stages.last_activation is not None,
        }

    def check_bytes(self, stages: Stages) -> None:
        if stages.layer.layout not in (None, "NCW", "NCHW", "NCDHW"):
            raise AttributeValueError(
                f"the layout is {stages.layer.layout}; on bytes, channels must come first"
            )
        for activation in (stages.activation, stages.last_activation):
            if activation is None or _is_linear_above_zero(activation):
                continue
            if not self._is_cut(activation):
                raise AttributeValueError(
                    f"{activation.names[0]} {getattr(activation, 'act_type', '')} follows; bytes "
                    "of a convolution can have 'relu', 'leaky', or, where the range of the output "
                    "is known and nothing is added, a clip that begins at 0"
                )

    def _is_cut(self, activation: Operator) -> bool:
        function = activation.pointwise()
        if function is None or function.function is not Function.CLIP or function.alpha != 0:
            return False
        return self.is_calibrated and not self.stages.has_sum

    def range_names(self) -> tuple[str, ...]:
        if not self.quantized:
            return ()
        ends = ("min_data", "max_data")
        return (*ends, "min_sum", "max_sum") if self.stages.has_sum else ends

    def output_names(self) -> tuple[str, ...]:
        return ("output", "output_min", "output_max") if self.quantized else ("output",)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        if self.quantized:
            ByteConvolution(self).forward(run, inputs, outputs)
        else:
            self.forward_floats(run, inputs, outputs[0])


@register("_sg_mkldnn_fully_connected")
@implements(kinds.FUSED_FULLY_CONNECTED)
class SubgraphFullyConnected(FusedLayer):
    """A fully connected layer with an activation.

    If ``quantized``, data is bytes. Weight and bias are int8 with ranges or, with
    ``channel_wise_quantize``, float32 with a separate scale for each row. The output is float32 if
    asked for, bytes if its range is known, else int32 sums.
    """

    layer_kind: ClassVar[Kind[Any]] = layers.FULLY_CONNECTED
    all_inputs: ClassVar[tuple[str, ...]] = (
        *("data", "weight", "bias"),
        *(f"{end}_{name}" for name in ("data", "weight", "bias") for end in ("min", "max")),
    )

    enable_float_output: bool = attribute(False, doc="whether the output is float32")
    with_eltwise: bool = attribute(False, doc="whether an activation follows")
    with_relu: bool = attribute(False, doc="the same for a ReLU, before MXNet 1.6")
    channel_wise_quantize: bool | None = attribute(
        None, doc="whether each row has a separate scale"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stages.norm is not None or self.stages.has_sum:
            raise AttributeValueError(
                "its subgraph has a batch norm or a sum; a fully connected layer takes in an "
                "activation only"
            )

    def flags(self, stages: Stages) -> dict[str, bool]:
        return {"with_eltwise with_relu": stages.activation is not None}

    def check_bytes(self, stages: Stages) -> None:
        if self.enable_float_output and self.is_calibrated:
            raise AttributeValueError(
                "enable_float_output is True, and there is a calibrated range, which only bytes "
                "have; give one of them"
            )
        if self.enable_float_output or self.is_calibrated:
            return
        if self.channel_wise_quantize:
            raise AttributeValueError(
                "channel_wise_quantize is True; its output needs min_calib_range and "
                "max_calib_range, or enable_float_output"
            )
        activation = stages.activation
        if activation is not None and not _is_linear_above_zero(activation):
            raise AttributeValueError(
                f"{activation.names[0]} follows int32 sums, which can have 'relu' only; "
                "set min_calib_range and max_calib_range, or enable_float_output"
            )

    @property
    def parameter_dtype(self) -> DType:
        return INT8 if self.quantized and not self.channel_wise_quantize else FLOAT32

    @property
    def target(self) -> DType:
        return FLOAT32 if self.enable_float_output else super().target

    def range_names(self) -> tuple[str, ...]:
        if not self.quantized:
            return ()
        names = ("data",) if self.channel_wise_quantize else self.tensor_names()
        return tuple(f"{end}_{name}" for name in names for end in ("min", "max"))

    def output_names(self) -> tuple[str, ...]:
        has_range = self.quantized and not self.enable_float_output
        return super().output_names() if has_range else ("output",)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        if self.quantized:
            ByteProduct(self).forward(run, inputs, outputs)
        else:
            self.forward_floats(run, inputs, outputs[0])
