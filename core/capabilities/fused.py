"""Kinds of operators that only plans contain, most of them made of several.

The executor makes them, and the classes there declare which kind they are of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..types import Array
from .arrays import HasFunction
from .kinds import Kind, Named
from .layers import BatchNorm, CellParameters, Convolution, Dense, LocalResponse, Rnn
from .quantized import Calibrated

__all__ = [
    "BATCH_NORM",
    "BATCH_NORM_ACTIVATION",
    "CONVOLUTION",
    "FULLY_CONNECTED",
    "LOCAL_RESPONSE",
    "RECURRENT",
    "REQUANTIZED",
    "SHUFFLE",
    "SILU",
    "BatchNormActivation",
    "FusedBatchNorm",
    "FusedConvolution",
    "FusedDense",
    "FusedLocalResponse",
    "Recurrent",
    "Requantized",
    "Shuffle",
]


class FusedConvolution(Protocol):
    """A convolution, followed by any of an inference batch norm, the addition of a residual (the
    last input), and an activation, in this order."""

    @property
    def layer(self) -> Convolution:
        """The convolution."""

    @property
    def batch_norm(self) -> BatchNorm | None:
        """The batch norm."""

    @property
    def has_residual(self) -> bool:
        """Whether the last input is added."""

    @property
    def activation(self) -> HasFunction | None:
        """The activation."""


class FusedDense(Protocol):
    """A fully connected layer with an activation."""

    @property
    def layer(self) -> Dense:
        """The layer."""

    @property
    def activation(self) -> HasFunction | None:
        """The activation."""


class FusedBatchNorm(Protocol):
    """An inference batch norm whose statistics are not read, alone or followed by a ReLU."""

    @property
    def layer(self) -> BatchNorm:
        """The batch norm."""

    @property
    def activation(self) -> HasFunction | None:
        """The ReLU."""


class FusedLocalResponse(Protocol):
    """An LRN without the output that only its reference's backward reads."""

    @property
    def layer(self) -> LocalResponse:
        """The LRN."""


class BatchNormActivation(Protocol):
    """A batch norm in training with a ReLU or a clip on its output."""

    @property
    def norm(self) -> BatchNorm:
        """The batch norm."""

    @property
    def activation(self) -> HasFunction:
        """The ReLU, or the clip."""


class Shuffle(Protocol):
    """A channel shuffle (X. Zhang et al.: ShuffleNet, 2017, arXiv:1707.01083): channels, seen as a
    matrix with a row for each group, are transposed."""

    @property
    def groups(self) -> int:
        """Number of groups of channels in the input."""


class Recurrent(Protocol):
    """One layer of ``RNN`` in one direction, whose parameters are separate arrays."""

    @property
    def rnn(self) -> Rnn:
        """The operator of such a layer."""

    @property
    def order(self) -> tuple[int, ...]:
        """The position of each of its gates in the weights."""

    @property
    def state_count(self) -> int:
        """Number of states of a cell."""

    def visible_outputs(self) -> int:
        """Number of outputs before what is kept for the backward pass."""

    def parameters(self, inputs: Sequence[Array | None]) -> CellParameters:
        """Return the parameters among the inputs, or among their gradients."""


class Requantized(Protocol):
    """An operator with int32 sums, fused with their requantization to bytes of a known range."""

    @property
    def source(self) -> Named:
        """The operator with the sums."""

    @property
    def requantize(self) -> Calibrated:
        """The requantization."""


CONVOLUTION = Kind[FusedConvolution]("fused convolution")
FULLY_CONNECTED = Kind[FusedDense]("fused fully connected layer")
BATCH_NORM = Kind[FusedBatchNorm]("fused batch norm")
BATCH_NORM_ACTIVATION = Kind[BatchNormActivation]("batch norm with activation in training")
LOCAL_RESPONSE = Kind[FusedLocalResponse]("local response normalization without its sums")
SILU = Kind[HasFunction]("gate")
SHUFFLE = Kind[Shuffle]("channel shuffle")
RECURRENT = Kind[Recurrent]("recurrent layer")
REQUANTIZED = Kind[Requantized]("requantized sums")
