"""Kinds of operators on bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ..types import Array, DType
from .arrays import HasFunction
from .kinds import Kind
from .layers import BatchNorm, Convolution, HasLayout, Pooling

__all__ = [
    "ACTIVATION",
    "BATCH_NORM",
    "DEQUANTIZATION",
    "FUSED_CONVOLUTION",
    "FUSED_FULLY_CONNECTED",
    "POOLING",
    "QUANTIZATION",
    "REQUANTIZATION",
    "SUMMING_ADDITION",
    "SUMMING_CONVOLUTION",
    "SUMMING_FULLY_CONNECTED",
    "Calibrated",
    "Converting",
    "ConvolutionStages",
    "FusedQuantizedConvolution",
    "FusedQuantizedDense",
    "FusedQuantizedLayer",
    "Quantized",
    "QuantizedBatchNorm",
    "QuantizedForm",
    "QuantizedLayer",
    "Stages",
    "SummingConvolution",
    "SummingLayer",
]


class QuantizedForm(NamedTuple):
    """How an operator is computed on bytes.

    Attributes:
        operator: name of the operator that does so.
        is_layer: whether it is worth quantizing its inputs. Other operators are computed on bytes
            only between such layers.
        numbers: positions of the inputs that stay real numbers.
    """

    operator: str
    is_layer: bool = False
    numbers: frozenset[int] = frozenset()


class Quantized(Protocol):
    """An operator that reads or writes bytes with their range."""

    @property
    def steps(self) -> Mapping[DType, float]:
        """Number of quantization steps from zero to the end of a range, by dtype."""


class Calibrated(Quantized, Protocol):
    """An operator whose output may have a range that is known from calibration."""

    @property
    def calibrated_reach(self) -> float:
        """The larger magnitude of the range's ends."""

    @property
    def is_calibrated(self) -> bool:
        """Whether the range is known."""

    @property
    def max_calib_range(self) -> float | None:
        """Upper end of the range; None if it is not known."""

    @property
    def min_calib_range(self) -> float | None:
        """Lower end of the range; None if it is not known."""


class QuantizedBatchNorm(Calibrated, Protocol):
    """``BatchNorm`` on bytes."""

    @property
    def eps(self) -> float:
        """Added to the variance."""


class Converting(Calibrated, Protocol):
    """An operator that converts real numbers or int32 sums to bytes."""

    @property
    def keeps_low(self) -> bool:
        """Whether uint8 output has the lower end that is given, instead of 0."""


class QuantizedLayer(Quantized, Protocol):
    """A layer whose weights are bytes."""

    @property
    def whole_steps(self) -> Mapping[DType, float]:
        """The same as ``steps`` without the half step."""

    def tensor_names(self) -> tuple[str, ...]:
        """Return the names of the inputs; those of the ranges follow them."""


class SummingLayer(QuantizedLayer, Protocol):
    """A layer of bytes that outputs int32 sums."""


class SummingConvolution(SummingLayer, HasLayout, Protocol):
    """``Convolution`` on bytes that outputs int32 sums."""

    @property
    def layer(self) -> Convolution:
        """The same convolution of real numbers, without a bias."""


class Stages(Protocol):
    """What a layer of MXNet's oneDNN graphs consists of, in the order of execution."""

    @property
    def norm(self) -> BatchNorm | None:
        """The batch norm."""

    @property
    def activation(self) -> HasFunction | None:
        """The activation before the addition, or the only one."""

    @property
    def has_sum(self) -> bool:
        """Whether the last tensor, a residual, is added."""

    @property
    def last_activation(self) -> HasFunction | None:
        """The activation after the addition."""


class ConvolutionStages(Stages, Protocol):
    """What a convolution of such graphs consists of."""

    @property
    def layer(self) -> Convolution:
        """The convolution."""


class FusedQuantizedLayer(QuantizedLayer, Calibrated, Protocol):
    """A layer of MXNet's oneDNN graphs, with what follows it."""

    @property
    def quantized(self) -> bool:
        """Whether it computes on bytes."""

    @property
    def stages(self) -> Stages:
        """What it consists of."""

    def folded(self, xp: Any, inputs: Sequence[Any]) -> tuple[Array, Array]:
        """Return weights and bias with the batch norm folded in."""

    def weight_scales(self, xp: Any, weight: Array) -> Array:
        """Return the quantization scales of the weights."""


class FusedQuantizedConvolution(FusedQuantizedLayer, Protocol):
    """A convolution of MXNet's oneDNN graphs, with what follows it."""

    @property
    def stages(self) -> ConvolutionStages:
        """What it consists of."""


class FusedQuantizedDense(FusedQuantizedLayer, Protocol):
    """A fully connected layer of MXNet's oneDNN graphs, with what follows it."""

    @property
    def channel_wise_quantize(self) -> bool | None:
        """Whether each output channel has its own scale."""

    @property
    def enable_float_output(self) -> bool:
        """Whether the output is float32 instead of bytes."""


QUANTIZATION = Kind[Converting]("quantization")
REQUANTIZATION = Kind[Converting]("requantization")
DEQUANTIZATION = Kind[Quantized]("dequantization")
ACTIVATION = Kind[object]("activation of bytes")
BATCH_NORM = Kind[QuantizedBatchNorm]("batch norm of bytes")
POOLING = Kind[Pooling]("pooling of bytes")
SUMMING_CONVOLUTION = Kind[SummingConvolution]("convolution of bytes")
SUMMING_FULLY_CONNECTED = Kind[SummingLayer]("fully connected layer of bytes")
SUMMING_ADDITION = Kind[Quantized]("addition of bytes")
FUSED_CONVOLUTION = Kind[FusedQuantizedConvolution]("convolution of bytes with what follows it")
FUSED_FULLY_CONNECTED = Kind[FusedQuantizedDense](
    "fully connected layer of bytes with what follows it"
)
