"""A job and the one table of its transitions.

                  ┌───── released, deferred ──────┐
                  ▼                               │
    submit ──▶ queued ── claimed ──▶ running ── succeeded ──▶ succeeded
                │ ▲ ▲                 │  │ └─── failed, exhausted, expired ──▶ failed ── retried ─┐
       paused   │ │ └─── resumed ─────┼──┼─────────────────────┐                                  │
                ▼ │                   │  │                     │                                  │
              paused ◀──── paused ────┘  └── cancelled ──▶ cancelled ── retried ──▶ queued ◀──────┘

A running job that is asked to pause or to be cancelled goes on running until its executor
says that it has stopped; the request stands in ``Job.requested`` meanwhile, and one to pause
can be withdrawn. An executor that dies gives its job back: to where the request wanted it,
else to the queue, else (the attempts used up) to ``failed``.

A job that used up its time is asked to stop as if to pause, so that what it reached is saved,
and then fails; one that waits fails at once (``expired``). One that failed in a way that
another attempt may not meet waits until ``not_before`` and is tried again (``deferred``).
``job_moves`` has what each event does to a job.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from app.errors import IllegalTransition

__all__ = [
    "TERMINAL",
    "Job",
    "JobAction",
    "JobEvent",
    "JobKind",
    "JobStatus",
    "advance",
    "backoff_seconds",
    "event_after_loss",
    "event_after_release",
]

_FIRST_BACKOFF_SECONDS = 1.0
_LONGEST_BACKOFF_SECONDS = 300.0


class JobKind(StrEnum):
    """What a job does with its module and a dataset."""

    FIT = "fit"
    SCORE = "score"
    PREDICT = "predict"


class JobStatus(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"
    """Waits for its executor, or for the jobs of its module before it."""
    RUNNING = "running"
    """An executor works on it, under a lease."""
    PAUSED = "paused"
    """Stopped with a checkpoint until someone resumes it."""
    SUCCEEDED = "succeeded"
    """Done; ``result`` says what came out."""
    FAILED = "failed"
    """Ended by an error, or by too many lost attempts; ``error`` says which."""
    CANCELLED = "cancelled"
    """Ended because someone asked for it."""


TERMINAL = frozenset({JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED})


class JobAction(StrEnum):
    """What a running job was asked to do and has not done yet."""

    PAUSE = "pause"
    CANCEL = "cancel"


class JobEvent(StrEnum):
    """Everything that happens to a job; each is a row of its event log."""

    SUBMITTED = "submitted"
    CLAIMED = "claimed"
    PROGRESS = "progress"
    METRIC = "metric"
    STATISTICS = "statistics"
    LOG = "log"
    CHECKPOINT = "checkpoint"
    PAUSE_REQUESTED = "pause_requested"
    CANCEL_REQUESTED = "cancel_requested"
    PAUSE_WITHDRAWN = "pause_withdrawn"
    PAUSED = "paused"
    RESUMED = "resumed"
    CANCELLED = "cancelled"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RELEASED = "released"
    DEFERRED = "deferred"
    EXHAUSTED = "exhausted"
    EXPIRY_REQUESTED = "expiry_requested"
    EXPIRED = "expired"
    RETRIED = "retried"


_S, _E = JobStatus, JobEvent

_TABLE: Mapping[JobStatus, Mapping[JobEvent, JobStatus]] = {
    _S.QUEUED: {
        _E.CLAIMED: _S.RUNNING,
        _E.PAUSED: _S.PAUSED,
        _E.CANCELLED: _S.CANCELLED,
        _E.EXPIRED: _S.FAILED,
    },
    _S.RUNNING: {
        _E.PROGRESS: _S.RUNNING,
        _E.METRIC: _S.RUNNING,
        _E.STATISTICS: _S.RUNNING,
        _E.LOG: _S.RUNNING,
        _E.CHECKPOINT: _S.RUNNING,
        _E.PAUSE_REQUESTED: _S.RUNNING,
        _E.CANCEL_REQUESTED: _S.RUNNING,
        _E.PAUSE_WITHDRAWN: _S.RUNNING,
        _E.PAUSED: _S.PAUSED,
        _E.CANCELLED: _S.CANCELLED,
        _E.SUCCEEDED: _S.SUCCEEDED,
        _E.FAILED: _S.FAILED,
        _E.RELEASED: _S.QUEUED,
        _E.DEFERRED: _S.QUEUED,
        _E.EXHAUSTED: _S.FAILED,
        _E.EXPIRY_REQUESTED: _S.RUNNING,
        _E.EXPIRED: _S.FAILED,
    },
    _S.PAUSED: {
        _E.EXPIRED: _S.FAILED,
        _E.RESUMED: _S.QUEUED,
        _E.CANCELLED: _S.CANCELLED,
    },
    _S.SUCCEEDED: {},
    _S.FAILED: {_E.RETRIED: _S.QUEUED},
    _S.CANCELLED: {_E.RETRIED: _S.QUEUED},
}

_OF_AN_ATTEMPT = frozenset(
    {
        _E.PROGRESS,
        _E.METRIC,
        _E.STATISTICS,
        _E.LOG,
        _E.CHECKPOINT,
        _E.SUCCEEDED,
        _E.FAILED,
        _E.RELEASED,
        _E.DEFERRED,
        _E.EXHAUSTED,
        _E.EXPIRY_REQUESTED,
    }
)

_WANTED: Mapping[JobEvent, str] = {
    _E.PAUSED: "only a queued or running job can be paused",
    _E.PAUSE_REQUESTED: "only a queued or running job can be paused",
    _E.CANCELLED: "only a queued, running or paused job can be cancelled",
    _E.CANCEL_REQUESTED: "only a queued, running or paused job can be cancelled",
    _E.PAUSE_WITHDRAWN: "only a pause that a running job was asked for can be withdrawn",
    _E.RESUMED: "only a paused job can be resumed, or one that was asked to pause",
    _E.RETRIED: "only a failed or cancelled job can be retried",
    _E.CLAIMED: "only a queued job can be claimed",
    _E.SUBMITTED: "a job is submitted once",
    _E.EXPIRED: "only a queued, running or paused job can run out of time",
}

_ADVICE: Mapping[tuple[JobStatus, JobEvent], str] = {
    (_S.QUEUED, _E.RESUMED): "it waits for its turn already",
    (_S.QUEUED, _E.RETRIED): "it waits for its turn already",
    (_S.RUNNING, _E.RETRIED): "cancel it first, or wait for its end",
    (_S.PAUSED, _E.PAUSED): "it is paused already",
    (_S.PAUSED, _E.RETRIED): "resume it",
    (_S.SUCCEEDED, _E.RETRIED): "submit a new job to run it again",
    (_S.SUCCEEDED, _E.RESUMED): "submit a new job to run it again",
    (_S.FAILED, _E.RESUMED): "retry it",
    (_S.CANCELLED, _E.RESUMED): "retry it",
    (_S.CANCELLED, _E.CANCELLED): "it is cancelled already",
}


def advance(status: JobStatus, event: JobEvent) -> JobStatus:
    """Return the status after an event.

    Raises:
        IllegalTransition: the status does not allow the event; the message says what does.
    """
    following = _TABLE[status].get(event)
    if following is None:
        raise IllegalTransition(_refusal(status, event))
    return following


def _refusal(status: JobStatus, event: JobEvent) -> str:
    if event in _OF_AN_ATTEMPT:
        return f"the job is {status}, no attempt of it is running; {event} is void"
    text = f"the job is {status}; {_WANTED[event]}"
    advice = _ADVICE.get((status, event))
    return f"{text}: {advice}" if advice else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as it stands in the store.

    Attributes:
        module: name of the module it belongs to; its jobs run one at a time.
        params: what the client asked for; see ``app.domain.job_params``.
        priority: a smaller number runs earlier; among equals the older job does.
        requested: pause or cancel, asked of a running job and not yet done.
        is_expiring: the pause is asked for because its time is used up; it fails then.
        attempt: counts the claims, never goes back: it fences whoever was thought dead.
        lost: attempts lost in a row without a new checkpoint.
        max_attempts: it fails when so many attempts were lost in a row.
        retries: how often it was tried again by itself after a failure.
        max_retries: how often it may be; only failures that may pass are met so.
        not_before: seconds since 1970; a queued job is left alone until then.
        deadline_seconds: from its submission or retry it has so long to end; None: any time.
        deadline_at: when that is over.
        timeout_seconds: so long it may run, all its attempts together; None: any time.
        ran_seconds: how long the attempts that ended have run, since submission or retry.
        claimed_at: when the present attempt began, None unless running.
        lease_seconds: a running job not renewed for so long is taken away.
        lease_until: seconds since 1970, None unless running.
        server: id of the server process that claimed it, None unless running.
        executor: name of the executor that runs or ran it.
        progress: the newest progress report.
        result: what came out, once succeeded.
        error: ``{"code", "message", "field"}``, once failed.
        setback: the same of the newest attempt that was lost or that failed and is tried again.
    """

    id: int = 0
    kind: JobKind
    module: str
    status: JobStatus = JobStatus.QUEUED
    params: Mapping[str, Any] = field(default_factory=dict)
    priority: int = 0
    requested: JobAction | None = None
    is_expiring: bool = False
    attempt: int = 0
    lost: int = 0
    max_attempts: int = 3
    retries: int = 0
    max_retries: int = 0
    not_before: float | None = None
    deadline_seconds: float | None = None
    deadline_at: float | None = None
    timeout_seconds: float | None = None
    ran_seconds: float = 0.0
    claimed_at: float | None = None
    lease_seconds: float = 30.0
    lease_until: float | None = None
    server: str | None = None
    executor: str | None = None
    progress: Mapping[str, Any] = field(default_factory=dict)
    result: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    setback: Mapping[str, Any] | None = None
    created_at: float = 0.0
    started_at: float | None = None
    finished_at: float | None = None
    updated_at: float = 0.0

    def evolve(self, **changes: Any) -> Job:
        """Return a copy with these fields changed."""
        return dataclasses.replace(self, **changes)

    @property
    def etag(self) -> str:
        """A strong ETag of what is known of it, its future apart; quotes included."""
        return f'"{self.id}-{self.attempt}-{self.status}-{round(self.updated_at * 1e6)}"'

    @property
    def expires_at(self) -> float | None:
        """When its time is used up; None if it has all the time, or is finished."""
        if self.status in TERMINAL:
            return None
        moments = [] if self.deadline_at is None else [self.deadline_at]
        if self.timeout_seconds is not None and self.claimed_at is not None:
            moments.append(self.claimed_at + self.timeout_seconds - self.ran_seconds)
        return min(moments, default=None)


def backoff_seconds(count: int) -> float:
    """Return how long to wait before trying again for the ``count``-th time, counted from 1."""
    return float(min(_FIRST_BACKOFF_SECONDS * 2.0 ** min(count - 1, 30), _LONGEST_BACKOFF_SECONDS))


def event_after_release(job: Job) -> JobEvent:
    """Return what becomes of a running job whose attempt ends before the job does.

    A standing request is granted, for nobody is left to carry it out; else it waits again.
    """
    if job.requested is JobAction.CANCEL:
        return JobEvent.CANCELLED
    if job.requested is JobAction.PAUSE:
        return JobEvent.EXPIRED if job.is_expiring else JobEvent.PAUSED
    return JobEvent.RELEASED


def event_after_loss(job: Job) -> JobEvent:
    """Return what becomes of a running job whose executor died.

    As after a release, but the job is given up when this was the last of its attempts.
    """
    event = event_after_release(job)
    if event is JobEvent.RELEASED and job.lost + 1 >= job.max_attempts:
        return JobEvent.EXHAUSTED
    return event
