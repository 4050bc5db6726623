"""Which epochs a fit trains, and so which versions it writes.

Epochs are counted from 0 over all trainings of a module, and a version has the number of epochs
that were completed before it. A fit goes on counting, so that it writes no version that exists,
unless its parameters say where it begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from app.domain.job import Job, JobKind

__all__ = ["FitEpochs", "epochs_of", "goes_on_counting"]


class FitEpochs(NamedTuple):
    """Epochs from ``begin`` up to ``end``, exclusive."""

    begin: int
    end: int

    @property
    def versions(self) -> range:
        """The numbers of the versions at the ends of these epochs."""
        return range(self.begin + 1, self.end + 1)


def goes_on_counting(params: Mapping[str, Any]) -> bool:
    """Return whether a fit's parameters leave open at which epoch it begins."""
    return params.get("begin_epoch") is None


def epochs_of(job: Job) -> FitEpochs | None:
    """Return the epochs of a fit; None for a job of another kind."""
    if job.kind is not JobKind.FIT:
        return None
    given: int | None = job.params.get("begin_epoch")
    epochs: int = job.params.get("epochs", 0)
    if given is not None:
        return FitEpochs(given, epochs)
    begin = job.begin_epoch or 0
    return FitEpochs(begin, begin + epochs)
