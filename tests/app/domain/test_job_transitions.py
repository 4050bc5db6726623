"""How each event changes a job: retries with back-off, deadlines, and lost attempts."""

from __future__ import annotations

import pytest

from app.domain import job_transitions
from app.domain.job import Job, JobAction, JobEvent, JobKind, JobStatus, backoff_seconds
from app.domain.moment import Moment
from app.errors.tree import IllegalTransition
from served.moments import at

S, E = JobStatus, JobEvent


def queued(**fields: object) -> Job:
    return Job(id=7, kind=JobKind.FIT, module="m", **fields)


def running(now: float = 100.0, **fields: object) -> Job:
    return job_transitions.claimed(queued(**fields), "cpu(0)", "server", at(now)).job


def error(code: str) -> dict[str, object]:
    return {"code": code, "message": "no room", "field": None}


def test_back_off_doubles_up_to_five_minutes() -> None:
    assert [backoff_seconds(count) for count in (1, 2, 3, 9, 10, 5000)] == [1, 2, 4, 256, 300, 300]


@pytest.mark.parametrize("code", sorted(job_transitions.TRANSIENT))
def test_transient_failures_are_retried_after_growing_delays(code: str) -> None:
    job = running(max_retries=2)
    for retry, wait in ((1, 1.0), (2, 2.0)):
        move = job_transitions.failed(job, error(code), at(110.0))
        assert (move.event, move.job.status) == (E.DEFERRED, S.QUEUED)
        assert (move.job.retries, move.job.not_before) == (retry, 110.0 + wait)
        assert move.job.setback == error(code)
        assert move.data == {"error": error(code), "retry": retry, "not_before": 110.0 + wait}
        assert move.job.error is move.job.finished_at is move.job.lease_until is None
        job = job_transitions.claimed(move.job, "cpu(0)", "server", at(120.0)).job
        assert job.not_before is None
    last = job_transitions.failed(job, error(code), at(130.0))
    assert (last.event, last.job.status, last.job.error) == (E.FAILED, S.FAILED, error(code))
    again = job_transitions.retried(last.job, at(140.0)).job
    assert (again.retries, again.not_before, again.error, again.setback) == (0, None, None, None)


def test_permanent_failures_end_the_job_whatever_retries_remain() -> None:
    move = job_transitions.failed(running(max_retries=5), error("invalid"), at(110.0))
    assert (move.event, move.job.finished_at) == (E.FAILED, 110.0)


@pytest.mark.parametrize(
    ("requested", "status"), [(JobAction.PAUSE, S.PAUSED), (JobAction.CANCEL, S.CANCELLED)]
)
def test_a_transient_failure_grants_a_pending_request(
    requested: JobAction, status: JobStatus
) -> None:
    job = running(max_retries=1).evolve(requested=requested)
    assert job_transitions.failed(job, error("storage_full"), at(110.0)).job.status is status


def test_a_refusal_delays_the_job_and_a_death_does_not() -> None:
    job = running(lost=1)
    assert job_transitions.lost(job, "died", at(110.0)).job.not_before is None
    innocent = job_transitions.lost(running(lost=2), "another's death", at(110.0), counts=False).job
    assert (innocent.status, innocent.lost) == (JobStatus.QUEUED, 2)
    put_off = job_transitions.lost(job, "in use", at(110.0), waits=True)
    assert (put_off.job.lost, put_off.job.not_before) == (2, 112.0)
    setback = put_off.job.setback
    assert setback is not None
    assert (setback["code"], setback["message"]) == ("attempt_lost", "in use")
    again = job_transitions.claimed(put_off.job, "cpu(0)", "server", at(113.0)).job
    assert job_transitions.succeeded(again, {}, at(114.0)).job.setback is None
    assert put_off.data == {"reason": "in use", "not_before": 112.0}


def test_running_time_adds_up_over_attempts_without_waiting() -> None:
    job = running(100.0, timeout_seconds=30.0)
    assert job.expires_at == 130.0
    job = job_transitions.released(job, "stopped", at(110.0)).job
    assert (job.ran_seconds, job.claimed_at, job.expires_at) == (10.0, None, None)
    job = job_transitions.claimed(job, "cpu(0)", "server", at(500.0)).job
    assert job.expires_at == 520.0
    job = job_transitions.lost(job, "died", at(505.0)).job
    assert job.ran_seconds == 15.0


def test_the_earlier_of_deadline_and_timeout_counts() -> None:
    job = running(100.0, timeout_seconds=30.0, deadline_at=120.0, deadline_seconds=50.0)
    assert job.expires_at == 120.0
    assert job_transitions.succeeded(job, {}, at(110.0)).job.expires_at is None


@pytest.mark.parametrize("status", [S.QUEUED, S.PAUSED])
def test_a_job_still_waiting_at_its_deadline_fails_at_once(status: JobStatus) -> None:
    job = queued(status=status, deadline_at=120.0, deadline_seconds=20.0)
    move = job_transitions.expired(job, at(121.0))
    assert (move.event, move.job.status) == (E.EXPIRED, S.FAILED)
    assert move.job.error is not None
    assert move.job.error["code"] == "deadline_exceeded"
    assert move.job.error["field"] == "deadline_seconds"
    assert "20 s after its submission" in move.job.error["message"]
    again = job_transitions.retried(move.job, at(200.0)).job
    assert again.deadline_at == 220.0


def test_a_running_job_over_its_time_saves_and_then_fails() -> None:
    job = running(100.0, timeout_seconds=30.0)
    asked = job_transitions.expired(job, at(131.0))
    assert (asked.event, asked.job.status) == (E.EXPIRY_REQUESTED, S.RUNNING)
    assert asked.job.requested is JobAction.PAUSE, "what the executor is told: save and stop"
    for change in (job_transitions.pause_requested, job_transitions.resumed):
        with pytest.raises(IllegalTransition, match="time is used up"):
            change(asked.job, at(132.0))
    for move in (
        job_transitions.released(asked.job, "stopped", at(133.0)),
        job_transitions.lost(asked.job, "died", at(133.0)),
    ):
        assert (move.event, move.job.status) == (E.EXPIRED, S.FAILED)
        assert move.job.error is not None
        assert move.job.error["field"] == "timeout_seconds"
        assert (move.job.requested, move.job.is_expiring) == (None, False)
    done = job_transitions.succeeded(asked.job, {"a": 1}, at(133.0))
    assert done.job.status is S.SUCCEEDED, "it finished before it was stopped"
    cancelled = job_transitions.cancel_requested(asked.job, at(132.0))
    assert cancelled is not None
    assert job_transitions.released(cancelled.job, "x", at(133.0)).job.status is S.CANCELLED


@pytest.mark.parametrize("step", [7200.0, -7200.0])
def test_a_step_of_the_machines_clock_changes_no_duration(step: float) -> None:
    job = running(100.0, timeout_seconds=30.0, lease_seconds=60.0)
    renewed = job_transitions.renewed(job, Moment(110.0 + step, 110.0)).job
    assert (renewed.expires_at, renewed.lease_until) == (130.0, 170.0)
    ended = job_transitions.succeeded(renewed, {}, Moment(120.0 + step, 120.0)).job
    assert (ended.ran_seconds, ended.finished_at) == (20.0, 120.0 + step)
    again = job_transitions.retried(
        ended.evolve(status=S.FAILED, deadline_seconds=50.0), Moment(130.0 + step, 130.0)
    ).job
    assert again.deadline_at == 180.0
    put_off = job_transitions.failed(
        running(max_retries=1), error("in_use"), Moment(110.0 + step, 110.0)
    )
    assert put_off.job.not_before == 111.0
    assert put_off.data["not_before"] == 111.0 + step, "as people read it"


def test_an_attempt_found_dead_after_hours_ran_as_long_as_its_lease() -> None:
    job = running(100.0, lease_seconds=30.0, timeout_seconds=3600.0)
    assert job_transitions.lost(job, "its server died", at(20_000.0)).job.ran_seconds == 30.0
    assert job_transitions.lost(job, "its server died", at(50.0)).job.ran_seconds == 0.0
