"""The errors of what an executor had been asked for when it died."""

from __future__ import annotations

from collections.abc import Sequence

from app.errors.tree import CallTooLong, ExecutorGone, ExecutorKilled
from app.link.work_page import RunningWork

__all__ = ["end_of_call", "end_of_prediction"]


def end_of_call(
    call_id: int, works: Sequence[RunningWork], reason: str, *, is_overrun: bool = False
) -> ExecutorGone:
    """Return the error for a call; it says whether the executor was running it.

    Args:
        is_overrun: the executor was ended because what it was running took too long.
    """
    for work in works:
        if work.call_id == call_id:
            return _killed(f"this call ({work})", reason, is_overrun)
    return ExecutorGone(reason)


def end_of_prediction(
    module: str, works: Sequence[RunningWork], reason: str, *, is_overrun: bool = False
) -> ExecutorGone:
    """Return the error for a prediction; a batch is always on a single module."""
    for work in works:
        if (work.method, work.module) == ("predict", module):
            return _killed(str(work), reason, is_overrun)
    return ExecutorGone(reason)


def _killed(what: str, reason: str, is_overrun: bool) -> ExecutorKilled:
    if is_overrun:
        return CallTooLong(
            f"{reason}, so the executor was ended while it ran {what}; send fewer or smaller "
            "examples at once, or raise MODSERVE_MAX_CALL_SECONDS"
        )
    return ExecutorKilled(f"the executor was killed or crashed while it ran {what}: {reason}")
