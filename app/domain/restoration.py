"""The outcome of restoring a module to its device."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from app.domain.checkpoint import CheckpointTag

__all__ = ["MOST_DEATHS", "ModuleState", "RestoreStatus"]

MOST_DEATHS = 2
"""A module whose restore has ended this many processes in a row is not restored automatically
again.
"""


class ModuleState(StrEnum):
    """Whether a module can be used."""

    READY = "ready"
    """Calls are answered."""
    PARAMS_LOST = "params_lost"
    """Its parameters were only in memory, and their executor died."""
    FAILED = "failed"
    """It cannot be restored to its device until it is repaired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreStatus:
    """The outcome of a module's latest restore.

    Attributes:
        is_under_way: it has begun and not ended; if no server is working on it, the process died.
        deaths: restores in a row in which the executor or its server died.
        restored_from: the checkpoint that was used instead of a damaged one.
        warning: why that one was not used.
        fault: why it could not be restored at all.
    """

    is_under_way: bool = False
    deaths: int = 0
    restored_from: CheckpointTag | None = None
    warning: str | None = None
    fault: str | None = None

    @property
    def failure(self) -> str | None:
        """Why the module cannot be used until it is repaired; None if it can."""
        if self.fault is None and self.deaths >= MOST_DEATHS:
            return f"its restore ended the executor's process {self.deaths} times"
        return self.fault
