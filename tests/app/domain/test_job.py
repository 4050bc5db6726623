"""The job state machine: all statuses and all events."""

from __future__ import annotations

import itertools

import pytest

from app.domain.job import (
    TERMINAL,
    Job,
    JobAction,
    JobEvent,
    JobKind,
    JobStatus,
    advance,
    event_after_loss,
    event_after_release,
)
from app.errors.tree import IllegalTransition

S, E = JobStatus, JobEvent

LEGAL = {
    (S.QUEUED, E.CLAIMED): S.RUNNING,
    (S.QUEUED, E.PAUSED): S.PAUSED,
    (S.QUEUED, E.CANCELLED): S.CANCELLED,
    (S.QUEUED, E.EXPIRED): S.FAILED,
    (S.RUNNING, E.PROGRESS): S.RUNNING,
    (S.RUNNING, E.METRIC): S.RUNNING,
    (S.RUNNING, E.STATISTICS): S.RUNNING,
    (S.RUNNING, E.LOG): S.RUNNING,
    (S.RUNNING, E.CHECKPOINT): S.RUNNING,
    (S.RUNNING, E.PAUSE_REQUESTED): S.RUNNING,
    (S.RUNNING, E.CANCEL_REQUESTED): S.RUNNING,
    (S.RUNNING, E.PAUSE_WITHDRAWN): S.RUNNING,
    (S.RUNNING, E.PAUSED): S.PAUSED,
    (S.RUNNING, E.CANCELLED): S.CANCELLED,
    (S.RUNNING, E.SUCCEEDED): S.SUCCEEDED,
    (S.RUNNING, E.FAILED): S.FAILED,
    (S.RUNNING, E.RELEASED): S.QUEUED,
    (S.RUNNING, E.DEFERRED): S.QUEUED,
    (S.RUNNING, E.EXHAUSTED): S.FAILED,
    (S.RUNNING, E.EXPIRY_REQUESTED): S.RUNNING,
    (S.RUNNING, E.EXPIRED): S.FAILED,
    (S.PAUSED, E.RESUMED): S.QUEUED,
    (S.PAUSED, E.CANCELLED): S.CANCELLED,
    (S.PAUSED, E.EXPIRED): S.FAILED,
    (S.FAILED, E.RETRIED): S.QUEUED,
    (S.CANCELLED, E.RETRIED): S.QUEUED,
}


@pytest.mark.parametrize(("status", "event"), list(itertools.product(JobStatus, JobEvent)))
def test_every_status_under_every_event(status: JobStatus, event: JobEvent) -> None:
    expected = LEGAL.get((status, event))
    if expected is not None:
        assert advance(status, event) is expected
        return
    with pytest.raises(IllegalTransition) as refused:
        advance(status, event)
    message = str(refused.value)
    assert f"the job is {status}" in message
    assert len(message) > len(f"the job is {status}; "), "the message says what would be legal"


def test_every_status_is_reachable_and_only_success_is_final() -> None:
    assert set(LEGAL.values()) == set(JobStatus)
    final = [status for status in JobStatus if all(left is not status for left, _ in LEGAL)]
    assert final == [S.SUCCEEDED]


@pytest.mark.parametrize(
    ("requested", "lost", "event"),
    [
        (None, 0, E.RELEASED),
        (None, 1, E.RELEASED),
        (None, 2, E.EXHAUSTED),
        (JobAction.PAUSE, 2, E.PAUSED),
        (JobAction.CANCEL, 0, E.CANCELLED),
    ],
)
def test_a_lost_attempt_grants_the_request_or_counts(
    requested: JobAction | None, lost: int, event: JobEvent
) -> None:
    job = Job(
        kind=JobKind.FIT,
        module="m",
        status=S.RUNNING,
        requested=requested,
        lost=lost,
        max_attempts=3,
    )
    assert event_after_loss(job) is event
    assert event_after_release(job) is (E.RELEASED if requested is None else event)
    assert advance(S.RUNNING, event) in JobStatus


def test_only_a_retry_leaves_a_terminal_status() -> None:
    assert {event for status, event in LEGAL if status in TERMINAL} == {E.RETRIED}
    unfinished = {status for status, event in LEGAL if event is not E.RETRIED}
    assert unfinished == set(JobStatus) - TERMINAL
