"""The errors of what an executor had been asked for when it died."""

from __future__ import annotations

from collections.abc import Sequence

from app.errors import ExecutorGone, ExecutorKilled
from app.link.work_page import RunningWork

__all__ = ["end_of_call", "end_of_prediction"]


def end_of_call(call_id: int, works: Sequence[RunningWork], reason: str) -> ExecutorGone:
    """Return the error for a call; it says whether the executor was running it."""
    for work in works:
        if work.call_id == call_id:
            what = f"the executor was killed or crashed while it ran this call ({work}): "
            return ExecutorKilled(what + reason)
    return ExecutorGone(reason)


def end_of_prediction(module: str, works: Sequence[RunningWork], reason: str) -> ExecutorGone:
    """Return the error for a prediction; a batch is always on a single module."""
    for work in works:
        if (work.method, work.module) == ("predict", module):
            what = f"the executor was killed or crashed while it ran {work}: "
            return ExecutorKilled(what + reason)
    return ExecutorGone(reason)
