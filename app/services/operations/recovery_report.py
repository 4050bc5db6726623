"""What recovery found on the disk and did about it, for the log and for ``modserve recover``."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

__all__ = ["Finding", "Outcome", "RecoveryReport"]

_log = logging.getLogger(__name__)

Kind = Literal["module", "dataset", "checkpoint", "file"]


class Outcome(StrEnum):
    """What recovery did about a finding."""

    IMPORTED = "imported"
    """It was missing in the database, and was added."""
    REBUILT = "rebuilt"
    """It had no readable record, and was rebuilt as far as its checkpoint or files allow."""
    UPDATED = "updated"
    """The file was newer than the database, which was updated."""
    WRITTEN = "written"
    """Its record file was missing, and was written from the database."""
    ADOPTED = "adopted"
    """A job's checkpoint that was never recorded, because its server died, now is the module's."""
    DAMAGED = "damaged"
    """It was set aside or skipped, not deleted; the detail says which."""
    LEFT = "left"
    """It could not be imported, or is unknown; it stays where it is."""


_PROBLEMS = frozenset({Outcome.DAMAGED, Outcome.LEFT, Outcome.REBUILT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A difference between the disk and the database."""

    kind: Kind
    name: str
    outcome: Outcome
    detail: str = ""

    @property
    def is_problem(self) -> bool:
        """Return whether an operator should look at it."""
        return self.outcome in _PROBLEMS

    def __str__(self) -> str:
        text = f"{self.kind} {self.name}: {self.outcome.value}"
        return f"{text}: {self.detail}" if self.detail else text


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """All findings of one recovery."""

    findings: tuple[Finding, ...]
    counts: dict[str, int]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that an operator should look at."""
        return tuple(one for one in self.findings if one.is_problem)

    def log(self) -> None:
        """Log each problem, and how many other findings there are of each kind and outcome."""
        fine = Counter((one.kind, one.outcome) for one in self.findings if not one.is_problem)
        for (kind, outcome), count in sorted(fine.items()):
            _log.info("recovery: %d %s(s) %s", count, kind, outcome.value)
        for problem in self.problems:
            _log.warning("recovery: %s", problem)

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain values."""
        rows = [
            {"kind": one.kind, "name": one.name, "outcome": one.outcome.value, "detail": one.detail}
            for one in self.findings
        ]
        return {"found": self.counts, "findings": rows}
