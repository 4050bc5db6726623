"""What became of bringing a module back to its device."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from app.domain.checkpoint import CheckpointTag

__all__ = ["MOST_DEATHS", "ModuleState", "RestoreStatus"]

MOST_DEATHS = 2
"""A module whose restore ended so many processes in a row is not restored again unasked."""


class ModuleState(StrEnum):
    """Whether a module can be used."""

    READY = "ready"
    """Calls are answered."""
    PARAMS_LOST = "params_lost"
    """Its parameters were in memory alone, and their executor died."""
    FAILED = "failed"
    """It cannot be restored to its device until somebody repairs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreStatus:
    """How the newest restore of a module went.

    Attributes:
        is_under_way: one was begun and has not ended; where no server is at it, it was a death.
        deaths: restores in a row in which the executor or its server died.
        restored_from: the checkpoint that was taken in the place of a damaged one.
        warning: why.
        fault: why it could not be restored at all.
    """

    is_under_way: bool = False
    deaths: int = 0
    restored_from: CheckpointTag | None = None
    warning: str | None = None
    fault: str | None = None

    @property
    def failure(self) -> str | None:
        """Why the module cannot be used until somebody mends it; None if it can."""
        if self.fault is None and self.deaths >= MOST_DEATHS:
            return f"its restore ended the executor's process {self.deaths} times"
        return self.fault
