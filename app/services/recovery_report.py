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
    """What became of one thing found."""

    IMPORTED = "imported"
    """The database did not know it; it does now."""
    REBUILT = "rebuilt"
    """As far as its checkpoint says; it had no record that can be read."""
    UPDATED = "updated"
    """The file was newer than the database."""
    WRITTEN = "written"
    """It had no record file, and got one from the database."""
    ADOPTED = "adopted"
    """A checkpoint of a job whose server died before it was told of: the module has it now."""
    DAMAGED = "damaged"
    """Set aside or skipped, nothing deleted; the detail says what was done."""
    LEFT = "left"
    """It could not be taken in, or is nothing of ours; it lies where it lay."""


_PROBLEMS = frozenset({Outcome.DAMAGED, Outcome.LEFT, Outcome.REBUILT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing on the disk that did not simply agree with the database."""

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
        """Write a line for each problem, and one for each kind and outcome of the others."""
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
