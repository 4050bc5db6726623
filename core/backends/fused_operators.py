"""Operators that only plans contain, most of them made of several, as kernels see them.

Backends stand below the operators of graphs, and below the executor, which makes the fused ones.
What a kernel may ask of a fused operator is said here once: the executor declares its class with
``implements``, a backend registers functions with ``KernelTable.register_fused``, and the type
checker holds both against the same protocol.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

__all__ = [
    "ACCUMULATE",
    "BATCH_NORM",
    "BATCH_NORM_RELU",
    "CONVOLUTION",
    "FULLY_CONNECTED",
    "GATE",
    "LOCAL_RESPONSE",
    "RECURRENT",
    "REQUANTIZED",
    "SHUFFLE",
    "BatchNorm",
    "BatchNormRelu",
    "Calibrated",
    "Convolution",
    "Dense",
    "FusedBatchNorm",
    "FusedConvolution",
    "FusedDense",
    "FusedLocalResponse",
    "Gate",
    "Kind",
    "LocalResponse",
    "Named",
    "Recurrent",
    "Requantized",
    "Shuffle",
    "implements",
]

O = TypeVar("O")  # noqa: E741 - an operator
C = TypeVar("C", bound=type)


@dataclasses.dataclass(frozen=True)
class Kind(Generic[O]):
    """A kind of fused operators, by the name that its kernels are registered under."""

    name: str


def implements(kind: Kind[O]) -> Callable[[type[O]], type[O]]:
    """Declare a class of operators to be of a kind, and give it the kind's name."""

    def declare(operator: type[O]) -> type[O]:
        operator.names = (kind.name,)  # type: ignore[attr-defined]
        return operator

    return declare


# -- operators of graphs that fused ones are made of ------------------------------------------


class Named(Protocol):
    """Any operator."""

    @property
    def names(self) -> tuple[str, ...]:
        """Canonical name, then aliases."""


class Convolution(Named, Protocol):
    """``Convolution``."""

    @property
    def layout(self) -> str | None:
        """Order of the axes, as ``"NCHW"``; None for channels first."""

    @property
    def no_bias(self) -> bool:
        """Whether there is no bias."""

    @property
    def num_filter(self) -> int:
        """Number of output channels."""

    @property
    def num_group(self) -> int:
        """Number of groups."""

    @property
    def window(self) -> Any:
        """Size, stride, dilation and padding."""


class Dense(Named, Protocol):
    """``FullyConnected``."""

    @property
    def no_bias(self) -> bool:
        """Whether there is no bias."""


class BatchNorm(Named, Protocol):
    """``BatchNorm``."""

    @property
    def axis(self) -> int:
        """The axis of the channels."""

    @property
    def eps(self) -> float:
        """Is added to the variance."""

    @property
    def fix_gamma(self) -> bool:
        """Whether gamma counts as 1."""

    @property
    def momentum(self) -> float:
        """Decay of the moving averages."""

    @property
    def use_global_stats(self) -> bool:
        """Whether the moving averages are used in training, too."""


class LocalResponse(Named, Protocol):
    """``LRN``."""

    @property
    def alpha(self) -> float:
        """Factor of the sum of squares."""

    @property
    def beta(self) -> float:
        """The exponent."""

    @property
    def knorm(self) -> float:
        """Is added to the sum."""

    @property
    def nsize(self) -> int:
        """How many channels are summed up."""


class Calibrated(Protocol):
    """``_contrib_requantize`` with a range that is known before."""

    @property
    def calibrated_reach(self) -> Any:
        """The largest magnitude."""

    @property
    def steps(self) -> Any:
        """How many steps of each dtype make up the range."""


# -- fused operators --------------------------------------------------------------------------


class FusedConvolution(Protocol):
    """A convolution; behind it, as far as they are there, an inference batch norm, the addition of
    a residual (the last input), and an activation."""

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
    def activation(self) -> Named | None:
        """The activation."""


class FusedDense(Protocol):
    """A fully connected layer with an activation."""

    @property
    def layer(self) -> Dense:
        """The layer."""

    @property
    def activation(self) -> Named | None:
        """The activation."""


class FusedBatchNorm(Protocol):
    """An inference batch norm, whose statistics nobody reads, perhaps with a ReLU."""

    @property
    def layer(self) -> BatchNorm:
        """The batch norm."""

    @property
    def activation(self) -> Named | None:
        """The ReLU."""


class FusedLocalResponse(Protocol):
    """An LRN without the output that only its reference's backward reads."""

    @property
    def layer(self) -> LocalResponse:
        """The LRN."""


class BatchNormRelu(Protocol):
    """A batch norm in training with a ReLU on its output."""

    @property
    def norm(self) -> BatchNorm:
        """The batch norm."""


class Gate(Protocol):
    """``factor`` or ``data * factor``; the factor is the sigmoid or, if hard,
    ``clip(data + shift, 0, width) / width``."""

    @property
    def is_hard(self) -> bool:
        """Whether the factor is the hard one."""

    @property
    def multiplies(self) -> bool:
        """Whether the data is multiplied by it."""

    @property
    def shift(self) -> float:
        """See above."""

    @property
    def width(self) -> float:
        """See above."""


class Shuffle(Protocol):
    """Channels dealt out to so many groups."""

    @property
    def groups(self) -> int:
        """How many runs of channels there are before."""


class Recurrent(Protocol):
    """One layer of ``RNN`` in one direction, whose parameters are arrays of their own."""

    @property
    def rnn(self) -> Any:
        """The operator of such a layer."""

    @property
    def order(self) -> tuple[int, ...]:
        """For each of its gates, the place that the weights have it in."""

    @property
    def state_count(self) -> int:
        """How many states a cell has."""

    def visible_outputs(self) -> int:
        """Number of outputs before what is kept for the backward pass."""

    def parameters(self, inputs: Sequence[Any]) -> Any:
        """Return the parameters among the inputs, or among their gradients."""


class Requantized(Protocol):
    """Sums made bytes of a known range."""

    @property
    def source(self) -> Any:
        """The operator that sums up."""

    @property
    def requantize(self) -> Calibrated:
        """The operator behind it."""


ACCUMULATE = Kind[Named]("_plan_accumulate")
CONVOLUTION = Kind[FusedConvolution]("_plan_convolution")
FULLY_CONNECTED = Kind[FusedDense]("_plan_fully_connected")
BATCH_NORM = Kind[FusedBatchNorm]("_plan_batch_norm")
BATCH_NORM_RELU = Kind[BatchNormRelu]("_plan_batch_norm_relu")
LOCAL_RESPONSE = Kind[FusedLocalResponse]("_plan_local_response")
GATE = Kind[Gate]("_plan_gate")
SHUFFLE = Kind[Shuffle]("_plan_shuffle")
RECURRENT = Kind[Recurrent]("_plan_recurrent")
REQUANTIZED = Kind[Requantized]("_plan_requantized")
