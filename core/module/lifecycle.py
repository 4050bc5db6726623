"""The order in which a module's methods may be called, and the errors for any other order."""

from __future__ import annotations

import enum

from ..errors import StageError

__all__ = ["Stage", "StepState", "require_stage"]


class Stage(enum.IntEnum):
    """How far a module has been set up; each stage includes the earlier ones."""

    CREATED = 0
    """It has a symbol."""
    BOUND = 1
    """It has shapes and memory."""
    INITIALIZED = 2
    """Its parameters have values."""
    READY = 3
    """It has an optimizer."""


_FIRST_CALL = {
    Stage.BOUND: "bind(data_shapes, label_shapes)",
    Stage.INITIALIZED: "init_params() or set_params()",
    Stage.READY: "init_optimizer()",
}


class StepState(enum.Enum):
    """Where the module is within one training step."""

    FRESH = "fresh"
    """Just bound: the gradients are zeros, and as in MXNet an update may use them."""
    IDLE = "idle"
    """Only inference passes have run since it was bound, or none since it was reshaped: there are
    no gradients to update with."""
    FORWARDED = "forwarded"
    """A training pass has run, so that a backward pass may follow."""
    BACKWARDED = "backwarded"
    """The gradients are those of the latest training pass."""
    PASSED = "passed"
    """An inference pass has run since the backward pass; the gradients are still valid."""

    def after_forward(self, *, is_training: bool) -> StepState:
        """Return the state after a forward pass."""
        if is_training:
            return StepState.FORWARDED
        if self is StepState.FRESH:
            return StepState.IDLE
        return StepState.PASSED if self is StepState.BACKWARDED else self


def require_stage(call: str, is_at: Stage, needs: Stage) -> None:
    """Raise StageError unless the module has reached the stage that a call needs."""
    if is_at < needs:
        missing = Stage(is_at + 1)
        raise StageError(
            f"{call} needs a module that is {needs.name}, this one is {is_at.name}; "
            f"call {_FIRST_CALL[missing]} first"
        )
