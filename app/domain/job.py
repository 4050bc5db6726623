"""A job and the one table of its transitions.

                  ┌───── released, deferred ──────┐
                  ▼                               │
    submit ──▶ queued ── claimed ──▶ running ── succeeded ──▶ succeeded
                │ ▲ ▲                 │  │ └─── failed, exhausted, expired ──▶ failed ── retried ─┐
       paused   │ │ └─── resumed ─────┼──┼─────────────────────┐                                  │
                ▼ │                   │  │                     │                                  │
              paused ◀──── paused ────┘  └── cancelled ──▶ cancelled ── retried ──▶ queued ◀──────┘

A running job that is asked to pause or cancel keeps the status running until its executor reports
that it has stopped; meanwhile the request is in ``Job.requested``, and a pause can be withdrawn. If
its executor dies, the job gets the requested status, else it is queued again, or, if its attempts
are used up, fails.

A running job that has used up its time is asked to stop as if to pause, so that its progress is
saved, and then fails; a waiting one fails at once (``expired``). After a temporary failure a job
waits until ``not_before`` and is then tried again (``deferred``). ``job_moves`` defines what each
event does to a job.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from app.errors.tree import IllegalTransition

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
    """The status of a job."""

    QUEUED = "queued"
    """Waits for its executor, or for the jobs of its module before it."""
    RUNNING = "running"
    """An executor works on it, under a lease."""
    PAUSED = "paused"
    """Stopped with a checkpoint until it is resumed."""
    SUCCEEDED = "succeeded"
    """Done; ``result`` has the result."""
    FAILED = "failed"
    """Ended by an error, or by too many lost attempts; see ``error``."""
    CANCELLED = "cancelled"
    """Ended on request."""


TERMINAL = frozenset({JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED})


class JobAction(StrEnum):
    """The action requested of a running job that is not carried out yet."""

    PAUSE = "pause"
    CANCEL = "cancel"


class JobEvent(StrEnum):
    """Types of events of a job; each event is a row of its event log."""

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
        IllegalTransition: the status does not allow the event; the message says which do.
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
    """The record of a job.

    Limits and durations (``not_before``, ``deadline_at``, ``claimed_at``, ``lease_until``) are in
    steady seconds, all other times in those that people read: see ``Moment``.

    Attributes:
        module: name of the module it belongs to; its jobs run one at a time.
        params: given by the client; see ``app.domain.job_params``.
        priority: a smaller number runs earlier; among equals the older job does.
        requested: pause or cancel, requested of a running job and not yet carried out.
        is_expiring: the pause was requested because its time is used up; it will then fail.
        attempt: number of claims, never decreases: it fences executors that were thought dead.
        lost: attempts lost in a row without a new checkpoint.
        max_attempts: it fails if this many attempts are lost in a row.
        retries: number of automatic retries.
        max_retries: maximum of ``retries``; only temporary failures are retried.
        not_before: a queued job is not started before.
        deadline_seconds: maximum time from submission or retry to its end; None for no limit.
        deadline_at: when that time is over.
        timeout_seconds: maximum running time of all attempts together; None for no limit.
        ran_seconds: total running time of ended attempts, since submission or retry.
        claimed_at: when the current attempt began, None unless running.
        lease_seconds: a running job whose lease is not renewed for this time is taken away.
        lease_until: None unless running.
        server: id of the server process that claimed it, None unless running.
        executor: name of the executor that runs or ran it.
        begin_epoch: of a fit, the epoch at which it begins; see ``app.domain.fit_epochs``.
        progress: the latest progress report.
        result: set once it succeeded.
        error: ``{"code", "message", "field"}``, once failed.
        setback: the same for the latest attempt that was lost, or that failed and is retried.
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
    begin_epoch: int | None = None
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
        """A strong ETag of its record, without estimates; including quotes."""
        return f'"{self.id}-{self.attempt}-{self.status}-{round(self.updated_at * 1e6)}"'

    @property
    def expires_at(self) -> float | None:
        """When its time is used up; None if there is no limit, or it has ended."""
        if self.status in TERMINAL:
            return None
        moments = [] if self.deadline_at is None else [self.deadline_at]
        if self.timeout_seconds is not None and self.claimed_at is not None:
            moments.append(self.claimed_at + self.timeout_seconds - self.ran_seconds)
        return min(moments, default=None)


def backoff_seconds(count: int) -> float:
    """Return how long to wait before the ``count``-th retry, counted from 1."""
    return float(min(_FIRST_BACKOFF_SECONDS * 2.0 ** min(count - 1, 30), _LONGEST_BACKOFF_SECONDS))


def event_after_release(job: Job) -> JobEvent:
    """Return the event that ends an attempt that did not finish its job.

    A pending request is granted, because no executor is left to carry it out; else the job is
    queued.
    """
    if job.requested is JobAction.CANCEL:
        return JobEvent.CANCELLED
    if job.requested is JobAction.PAUSE:
        return JobEvent.EXPIRED if job.is_expiring else JobEvent.PAUSED
    return JobEvent.RELEASED


def event_after_loss(job: Job) -> JobEvent:
    """Return the event that ends an attempt whose executor died.

    As after a release, but the job fails if this was its last attempt.
    """
    event = event_after_release(job)
    if event is JobEvent.RELEASED and job.lost + 1 >= job.max_attempts:
        return JobEvent.EXHAUSTED
    return event
