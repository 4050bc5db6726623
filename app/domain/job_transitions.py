"""The effect of each event on a job: pure functions from a job to the job after it.

``app.store.queue`` guards against stale attempts and writes; the table in ``job`` says which event
may follow which status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.domain.job import (
    TERMINAL,
    Job,
    JobAction,
    JobEvent,
    JobStatus,
    advance,
    backoff_seconds,
    event_after_loss,
    event_after_release,
)
from app.domain.moment import Moment
from app.errors.tree import IllegalTransition

__all__ = [
    "TRANSIENT",
    "Move",
    "cancel_requested",
    "cancelled",
    "claimed",
    "expired",
    "failed",
    "lost",
    "pause_requested",
    "recorded",
    "released",
    "renewed",
    "resumed",
    "retried",
    "succeeded",
    "unreadable",
]

TRANSIENT = frozenset({"executor_gone", "in_use", "not_resident", "storage_full", "unavailable"})
"""Error codes of failures that may not happen again in another attempt."""

_OVER: Mapping[str, Any] = {
    "lease_until": None,
    "server": None,
    "requested": None,
    "is_expiring": False,
    "claimed_at": None,
}
_AFRESH: Mapping[str, Any] = {
    "lost": 0,
    "retries": 0,
    "not_before": None,
    "ran_seconds": 0.0,
    "setback": None,
}


@dataclass(frozen=True, slots=True)
class Move:
    """One change of a job.

    Attributes:
        job: as it is after the change.
        event: its type in the log; None for changes that are not logged, such as the renewal of a
            lease.
        data: of the event.
    """

    job: Job
    event: JobEvent | None
    data: Mapping[str, Any] = field(default_factory=dict)


# -- attempts -------------------------------------------------------------------------------


def claimed(job: Job, executor: str, server: str, now: Moment) -> Move:
    """Begin an attempt."""
    return _move(
        job,
        JobEvent.CLAIMED,
        now,
        {"executor": executor},
        attempt=job.attempt + 1,
        executor=executor,
        server=server,
        lease_until=now.steady + job.lease_seconds,
        claimed_at=now.steady,
        not_before=None,
        started_at=now.wall if job.started_at is None else job.started_at,
    )


def renewed(job: Job, now: Moment) -> Move:
    """Extend the lease."""
    # Without ``updated_at``: neither the job's ETag nor its estimate change with a renewal.
    return Move(job.evolve(lease_until=now.steady + job.lease_seconds), None)


def recorded(job: Job, kind: JobEvent, data: Mapping[str, Any], now: Moment) -> Move:
    """Note a report: progress is stored in the job, a checkpoint resets the number of lost
    attempts.
    """
    changes: dict[str, Any] = {}
    if kind is JobEvent.PROGRESS:
        changes["progress"] = dict(data)
    elif kind is JobEvent.CHECKPOINT:
        changes["lost"] = 0
    return _move(job, kind, now, data, **changes)


def succeeded(job: Job, result: Mapping[str, Any], now: Moment) -> Move:
    """End attempt and job successfully."""
    result = dict(result)
    return _end(job, JobEvent.SUCCEEDED, now, {"result": result}, result=result, setback=None)


def failed(job: Job, error: Mapping[str, Any], now: Moment) -> Move:
    """End an attempt by an error, and the job unless the error may be retried."""
    error = dict(error)
    if error["code"] not in TRANSIENT or job.retries >= job.max_retries:
        return _end(job, JobEvent.FAILED, now, {"error": error}, error=error)
    event = event_after_release(job)
    if event is not JobEvent.RELEASED:
        return _give_back(job, event, str(error["message"]), now)
    retries = job.retries + 1
    wait = backoff_seconds(retries)
    data = {"error": error, "retry": retries, "not_before": now.wall + wait}
    changes = {"retries": retries, "not_before": now.steady + wait, "setback": error}
    return _end(job, JobEvent.DEFERRED, now, data, **changes)


def cancelled(job: Job, now: Moment) -> Move:
    """End a cancelled job, whether it runs or waits."""
    return _end(job, JobEvent.CANCELLED, now)


def released(job: Job, reason: str, now: Moment) -> Move:
    """End an attempt in good order: a requested action is granted, else the job is queued."""
    return _give_back(job, event_after_release(job), reason, now)


def lost(job: Job, reason: str, now: Moment, *, waits: bool = False, counts: bool = True) -> Move:
    """End an attempt that died, as ``released`` does; after too many in a row the job fails.

    Args:
        waits: the cause may persist: the more attempts were lost, the later the next one begins.
        counts: the job may be the cause; else the attempt does not count as lost.
    """
    event = event_after_loss(job) if counts else event_after_release(job)
    count = job.lost + counts
    setback = {"code": "attempt_lost", "message": reason, "field": None}
    changes: dict[str, Any] = {"lost": count, "setback": setback}
    if job.claimed_at is not None and job.lease_until is not None:
        # It died while it had its lease, even if that is found out hours later.
        ended = min(now.steady, job.lease_until)
        changes["ran_seconds"] = _ran_seconds(job, job.claimed_at, ended)
    if event is not JobEvent.RELEASED or not waits:
        return _give_back(job, event, reason, now, **changes)
    wait = backoff_seconds(count)
    data = {"reason": reason, "not_before": now.wall + wait}
    return _end(job, event, now, data, not_before=now.steady + wait, **changes)


def unreadable(job: Job, now: Moment) -> Move:
    """Fail a job whose row was damaged: what it was asked for cannot be read any longer."""
    message = (
        "its row in the server's database was damaged on the disk; `params` shows what is left of "
        "its request. Submit it again"
    )
    error = {"code": "row_damaged", "message": message, "field": None}
    event = JobEvent.FAILED if job.status is JobStatus.RUNNING else JobEvent.EXPIRED
    return _end(job, event, now, {"error": error}, error=error)


def expired(job: Job, now: Moment) -> Move:
    """Fail a waiting job whose time is over; ask a running one to save and stop."""
    if job.status is JobStatus.RUNNING:
        pause = JobAction.PAUSE
        return _move(job, JobEvent.EXPIRY_REQUESTED, now, requested=pause, is_expiring=True)
    return _give_back(job, JobEvent.EXPIRED, "", now)


# -- requests of clients --------------------------------------------------------------------


def pause_requested(job: Job, now: Moment) -> Move | None:
    """Pause a queued job, ask a running one to pause; None if that was already requested."""
    if job.status is not JobStatus.RUNNING:
        return _move(job, JobEvent.PAUSED, now)
    if job.requested is JobAction.CANCEL:
        raise IllegalTransition("the job is being cancelled; retry it when it is cancelled")
    _refuse_expiring(job)
    if job.requested is JobAction.PAUSE:
        return None
    return _move(job, JobEvent.PAUSE_REQUESTED, now, requested=JobAction.PAUSE)


def cancel_requested(job: Job, now: Moment) -> Move | None:
    """Cancel a waiting job, ask a running one to cancel; None if that was already requested."""
    if job.status is not JobStatus.RUNNING:
        return cancelled(job, now)
    if job.requested is JobAction.CANCEL:
        return None
    return _move(job, JobEvent.CANCEL_REQUESTED, now, requested=JobAction.CANCEL)


def resumed(job: Job, now: Moment) -> Move:
    """Queue a paused job, or withdraw a pause not carried out yet."""
    _refuse_expiring(job)
    if job.requested is JobAction.PAUSE:
        return _move(job, JobEvent.PAUSE_WITHDRAWN, now, requested=None)
    return _move(job, JobEvent.RESUMED, now, lost=0, not_before=None)


def retried(job: Job, now: Moment) -> Move:
    """Queue a failed or cancelled job, with its attempts, retries and time reset."""
    deadline = None if job.deadline_seconds is None else now.steady + job.deadline_seconds
    afresh = {**_AFRESH, "error": None, "finished_at": None, "deadline_at": deadline}
    return _move(job, JobEvent.RETRIED, now, **afresh)


def _refuse_expiring(job: Job) -> None:
    if job.is_expiring:
        raise IllegalTransition("the job's time is used up and it is being stopped; retry it then")


# -- how they are made ----------------------------------------------------------------------


def _give_back(job: Job, event: JobEvent, reason: str, now: Moment, **changes: Any) -> Move:
    data: dict[str, Any] = {"reason": reason}
    if event in {JobEvent.EXHAUSTED, JobEvent.EXPIRED}:
        error = _exhaustion(job, reason) if event is JobEvent.EXHAUSTED else _expiry(job, now)
        data, changes = {"error": error}, {**changes, "error": error}
    return _end(job, event, now, data, **changes)


def _exhaustion(job: Job, reason: str) -> dict[str, Any]:
    message = f"{job.lost + 1} attempts in a row were lost, the last: {reason}"
    return {"code": "attempts_exhausted", "message": message, "field": None}


def _expiry(job: Job, now: Moment) -> dict[str, Any]:
    is_late = job.deadline_at is not None and now.steady >= job.deadline_at
    what = (
        f"it had not ended {job.deadline_seconds:g} s after its submission"
        if is_late
        else f"it had run for {job.timeout_seconds or 0:g} s"
    )
    message = f"{what}; its checkpoints are kept, and a retry continues from the newest"
    field_name = "deadline_seconds" if is_late else "timeout_seconds"
    return {"code": "deadline_exceeded", "message": message, "field": field_name}


def _end(
    job: Job, event: JobEvent, now: Moment, data: Mapping[str, Any] | None = None, **changes: Any
) -> Move:
    """End an attempt, if there is one, and the job if the event leads to an end."""
    if advance(job.status, event) in TERMINAL:
        changes["finished_at"] = now.wall
    if job.claimed_at is not None:
        changes.setdefault("ran_seconds", _ran_seconds(job, job.claimed_at, now.steady))
    return _move(job, event, now, data, **{**changes, **_OVER})


def _ran_seconds(job: Job, began: float, ended: float) -> float:
    # Never negative: the machine may have been started again with its clock set back.
    return job.ran_seconds + max(0.0, ended - began)


def _move(
    job: Job, event: JobEvent, now: Moment, data: Mapping[str, Any] | None = None, **changes: Any
) -> Move:
    status = advance(job.status, event)
    return Move(job.evolve(status=status, updated_at=now.wall, **changes), event, data or {})
