"""Calls of the step level: passes, updates, and the results of the last pass."""

from __future__ import annotations

from dataclasses import dataclass

from app.link.call_base import OfModule

__all__ = [
    "Backward",
    "Forward",
    "GetInputGrads",
    "GetOutputs",
    "GetStates",
    "GetStatistics",
    "PassCall",
    "SetStates",
    "StepCall",
    "Update",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCall(OfModule):
    """A call of the step level.

    Attributes:
        generation: the module's generation, as the caller knows it.
        sequence: number of this call, one more than that of the previous call. A repetition of the
            last number gets the same answer without being executed again.
    """

    generation: int | None = None
    sequence: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassCall(StepCall):
    """A pass through the module, which may update auxiliary states.

    Attributes:
        is_marked: the module's record is already marked as not durable; otherwise a pass that
            updates auxiliary states is refused with ``would_change``.
    """

    is_marked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward(PassCall):
    """Compute outputs. Tensors: data and labels by name.

    Attributes:
        is_train: None for the mode that the module is bound for.
        bucket: for a bucketing module; None for the smallest with the tensors' shapes.
        backward: also compute the gradients.
        with_outputs: include the outputs in the answer.
        monitor: collect statistics of the operators' outputs whose names match, for
            ``GetStatistics``.
    """

    is_train: bool | None = None
    bucket: str | None = None
    backward: bool = False
    with_outputs: bool = True
    monitor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backward(PassCall):
    """Compute gradients. Tensors: output gradients by name of the output, for outputs that are not
    losses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(StepCall):
    """Update the parameters from the gradients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetOutputs(OfModule):
    """Fetch the outputs of the last forward pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetStatistics(OfModule):
    """Ask for ``statistics`` of parameters, auxiliary states and gradients whose names match.

    If the last forward pass was monitored, statistics of its outputs come first.
    """

    pattern: str = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class GetInputGrads(OfModule):
    """Fetch the gradients of the data inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetStates(OfModule):
    """Fetch the states by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetStates(OfModule):
    """Set the states from tensors, or all to one value."""

    value: float | None = None
