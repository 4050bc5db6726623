"""Calls of the step level: passes, updates, and what is left of the last pass."""

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
        generation: of the module, as the caller knows it.
        sequence: number of this call, one more than that of the call before; a call whose number
            was just answered is answered again and not done again.
    """

    generation: int | None = None
    sequence: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassCall(StepCall):
    """A pass through the module, which may move auxiliary states.

    Attributes:
        is_marked: the module's record says already that it is not durable; without that, a pass
            that moves auxiliary states is refused with ``would_change``.
    """

    is_marked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward(PassCall):
    """Compute outputs. Tensors: data and labels by name.

    Attributes:
        is_train: as bound where None.
        bucket: of a bucketing module; None takes the smallest that has the tensors' shapes.
        backward: compute the gradients too.
        with_outputs: send the outputs with the answer.
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
    """Compute gradients. Tensors: gradients by name of the output, where no loss gives them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(StepCall):
    """Update the parameters from the gradients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetOutputs(OfModule):
    """Fetch the outputs of the last forward pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetStatistics(OfModule):
    """Ask for ``statistics`` of parameters, auxiliary states and gradients whose names match.

    Before them come those of outputs, if the last forward pass was monitored.
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
