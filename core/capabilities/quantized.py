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
    "ByteBatchNorm",
    "ByteForm",
    "ByteLayer",
    "Calibrated",
    "Converting",
    "ConvolutionStages",
    "FusedByteConvolution",
    "FusedByteDense",
    "FusedByteLayer",
    "OnBytes",
    "Stages",
    "SummingConvolution",
    "SummingLayer",
]


class ByteForm(NamedTuple):
    """How what an operator does is done on bytes.

    Attributes:
        operator: name of the operator that does it.
        is_layer: whether numbers are made bytes for its sake; what is not stays among bytes only
            if there are such layers before and behind it.
        numbers: positions of the inputs that stay numbers.
    """

    operator: str
    is_layer: bool = False
    numbers: frozenset[int] = frozenset()


class OnBytes(Protocol):
    """An operator that reads or makes bytes with their range."""

    @property
    def steps(self) -> Mapping[DType, float]:
        """How many steps of each dtype a range reaches from zero."""


class Calibrated(OnBytes, Protocol):
    """An operator whose output may have a range that is known beforehand."""

    @property
    def calibrated_reach(self) -> float:
        """How far from 0 the range reaches."""

    @property
    def is_calibrated(self) -> bool:
        """Whether the range is known."""

    @property
    def max_calib_range(self) -> float | None:
        """The largest number."""

    @property
    def min_calib_range(self) -> float | None:
        """The smallest number."""


class ByteBatchNorm(Calibrated, Protocol):
    """``BatchNorm`` on bytes."""

    @property
    def eps(self) -> float:
        """Is added to the variance."""


class Converting(Calibrated, Protocol):
    """An operator that makes bytes of numbers or of int32 sums."""

    @property
    def keeps_low(self) -> bool:
        """Whether bytes below zero are the numbers below zero."""


class ByteLayer(OnBytes, Protocol):
    """A layer whose weights are bytes."""

    @property
    def whole_steps(self) -> Mapping[DType, float]:
        """The same as ``steps`` without the half step."""

    def tensor_names(self) -> tuple[str, ...]:
        """Names of the tensors; those of the ranges come behind."""


class SummingLayer(ByteLayer, Protocol):
    """A layer of bytes that puts out int32 sums."""


class SummingConvolution(SummingLayer, HasLayout, Protocol):
    """``Convolution`` on bytes that puts out int32 sums."""

    @property
    def layer(self) -> Convolution:
        """What it does with real numbers, without a bias."""


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


class FusedByteLayer(ByteLayer, Calibrated, Protocol):
    """A layer of MXNet's oneDNN graphs, with what follows it."""

    @property
    def quantized(self) -> bool:
        """Whether it computes with bytes."""

    @property
    def stages(self) -> Stages:
        """What it consists of."""

    def folded(self, xp: Any, inputs: Sequence[Any]) -> tuple[Array, Array]:
        """Return weights and bias that have taken in the batch norm."""

    def weight_scales(self, xp: Any, weight: Array) -> Array:
        """Return by what weights are multiplied to become bytes."""


class FusedByteConvolution(FusedByteLayer, Protocol):
    """A convolution of MXNet's oneDNN graphs, with what follows it."""

    @property
    def stages(self) -> ConvolutionStages:
        """What it consists of."""


class FusedByteDense(FusedByteLayer, Protocol):
    """A fully connected layer of MXNet's oneDNN graphs, with what follows it."""

    @property
    def channel_wise_quantize(self) -> bool | None:
        """Whether each output channel has a scale of its own."""

    @property
    def enable_float_output(self) -> bool:
        """Whether numbers come out, not bytes."""


QUANTIZATION = Kind[Converting]("quantization")
REQUANTIZATION = Kind[Converting]("requantization")
DEQUANTIZATION = Kind[OnBytes]("dequantization")
ACTIVATION = Kind[object]("activation of bytes")
BATCH_NORM = Kind[ByteBatchNorm]("batch norm of bytes")
POOLING = Kind[Pooling]("pooling of bytes")
SUMMING_CONVOLUTION = Kind[SummingConvolution]("convolution of bytes")
SUMMING_FULLY_CONNECTED = Kind[SummingLayer]("fully connected layer of bytes")
SUMMING_ADDITION = Kind[OnBytes]("addition of bytes")
FUSED_CONVOLUTION = Kind[FusedByteConvolution]("convolution of bytes with what follows it")
FUSED_FULLY_CONNECTED = Kind[FusedByteDense]("fully connected layer of bytes with what follows it")
