"""The job queue: every change of a job's status, each guarded and each with its event.

    claim                                   queued  → running     a new attempt, under a lease
    renew, record                           running → running     the attempt speaks
    succeed, fail, cancel                   running → ...         the attempt ends the job
    release, lose                           running → ...         it ends, the job does not
    request_pause, request_cancel, resume, retry                  what clients ask for

What an attempt says is guarded by (job, attempt, running): whoever was thought dead and comes
back moves no row and gets Superseded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, exists, update
from sqlalchemy.exc import IntegrityError

from app.domain.job import (
    TERMINAL,
    Job,
    JobAction,
    JobEvent,
    JobStatus,
    advance,
    event_after_loss,
    event_after_release,
)
from app.errors import IllegalTransition, Superseded
from app.store.events import append_event
from app.store.jobs import get_job, select_jobs
from app.store.rows import job_of, job_values
from app.store.schema import jobs, modules

__all__ = [
    "cancel",
    "claim",
    "fail",
    "lose",
    "next_job",
    "overdue",
    "record",
    "release",
    "renew",
    "request_cancel",
    "request_pause",
    "resume",
    "retry",
    "succeed",
]

_NO_LEASE: Mapping[str, Any] = {"lease_until": None, "server": None, "requested": None}


# -- attempts -------------------------------------------------------------------------------


def next_job(connection: Connection, executor: str) -> Job | None:
    """Return the job that an executor would run next, None where none can begin.

    It is the first in order of (priority, id) whose module has no running job.
    """
    other = jobs.alias()
    is_busy = exists().where(
        other.c.module_id == jobs.c.module_id, other.c.status == JobStatus.RUNNING.value
    )
    query = (
        select_jobs()
        .where(jobs.c.status == JobStatus.QUEUED.value, modules.c.executor == executor, ~is_busy)
        .order_by(jobs.c.priority, jobs.c.id)
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else job_of(row)


def claim(connection: Connection, executor: str, server: str, now: float) -> Job | None:
    """Begin an attempt of the next job for an executor; None where none can begin."""
    job = next_job(connection, executor)
    if job is None:
        return None
    try:
        # Since the query another server may have taken it, or another job of its module.
        with connection.begin_nested():
            return _move(
                connection,
                job,
                JobEvent.CLAIMED,
                now,
                {"executor": executor},
                attempt=job.attempt + 1,
                executor=executor,
                server=server,
                lease_until=now + job.lease_seconds,
                started_at=now if job.started_at is None else job.started_at,
            )
    except (Superseded, IntegrityError):
        return None


def renew(connection: Connection, job_id: int, attempt: int, now: float) -> Job:
    """Extend an attempt's lease; return the job, which tells what is requested of it.

    Raises:
        Superseded: the attempt does not hold the job any more.
    """
    job = _claimed(connection, job_id, attempt)
    renewed = job.evolve(lease_until=now + job.lease_seconds)
    _write(connection, job, renewed)
    return renewed


def record(
    connection: Connection,
    job_id: int,
    attempt: int,
    kind: JobEvent,
    data: Mapping[str, Any],
    now: float,
) -> Job:
    """Log what an attempt reports: progress, metrics, a log line or a checkpoint.

    Progress is kept in the job too. A checkpoint forgives the attempts lost before it.
    """
    job = _claimed(connection, job_id, attempt)
    changes: dict[str, Any] = {}
    if kind is JobEvent.PROGRESS:
        changes["progress"] = dict(data)
    elif kind is JobEvent.CHECKPOINT:
        changes["lost"] = 0
    return _move(connection, job, kind, now, data, **changes)


def succeed(
    connection: Connection, job_id: int, attempt: int, result: Mapping[str, Any], now: float
) -> Job:
    """End an attempt and its job well."""
    job = _claimed(connection, job_id, attempt)
    return _finish(
        connection, job, JobEvent.SUCCEEDED, now, {"result": dict(result)}, result=result
    )


def fail(
    connection: Connection, job_id: int, attempt: int, error: Mapping[str, Any], now: float
) -> Job:
    """End an attempt and its job by an error, which another attempt would meet again."""
    job = _claimed(connection, job_id, attempt)
    return _finish(connection, job, JobEvent.FAILED, now, {"error": dict(error)}, error=error)


def cancel(connection: Connection, job_id: int, attempt: int, now: float) -> Job:
    """End an attempt that was asked to stop for good."""
    job = _claimed(connection, job_id, attempt)
    return _finish(connection, job, JobEvent.CANCELLED, now)


def release(connection: Connection, job_id: int, attempt: int, reason: str, now: float) -> Job:
    """End an attempt in good order: the job is paused if that was asked of it, else queued."""
    job = _claimed(connection, job_id, attempt)
    return _give_back(connection, job, event_after_release(job), reason, now)


def lose(connection: Connection, job_id: int, attempt: int, reason: str, now: float) -> Job:
    """End an attempt that died, as ``release`` does; after too many in a row the job fails."""
    job = _claimed(connection, job_id, attempt)
    return _give_back(connection, job, event_after_loss(job), reason, now, lost=job.lost + 1)


def _give_back(
    connection: Connection, job: Job, event: JobEvent, reason: str, now: float, **changes: Any
) -> Job:
    data: dict[str, Any] = {"reason": reason}
    if event is JobEvent.EXHAUSTED:
        error = {
            "code": "attempts_exhausted",
            "message": f"{job.lost + 1} attempts in a row were lost, the last: {reason}",
            "field": None,
        }
        data, changes = {"error": error}, {**changes, "error": error}
    if advance(job.status, event) in TERMINAL:
        changes["finished_at"] = now
    return _move(connection, job, event, now, data, **{**changes, **_NO_LEASE})


def overdue(connection: Connection, now: float) -> list[Job]:
    """Return running jobs whose lease has expired, oldest first."""
    query = select_jobs().where(jobs.c.status == JobStatus.RUNNING.value, jobs.c.lease_until < now)
    return [job_of(row) for row in connection.execute(query.order_by(jobs.c.id))]


# -- what clients ask for -------------------------------------------------------------------


def request_pause(connection: Connection, job_id: int, now: float) -> Job:
    """Pause a queued job; ask a running one to pause.

    Raises:
        NotFound: there is no such job.
        IllegalTransition: it is finished or paused, or is being cancelled.
    """
    job = get_job(connection, job_id, lock=True)
    if job.status is not JobStatus.RUNNING:
        return _move(connection, job, JobEvent.PAUSED, now)
    if job.requested is JobAction.CANCEL:
        raise IllegalTransition("the job is being cancelled; retry it when it is cancelled")
    if job.requested is JobAction.PAUSE:
        return job
    return _move(connection, job, JobEvent.PAUSE_REQUESTED, now, requested=JobAction.PAUSE)


def request_cancel(connection: Connection, job_id: int, now: float) -> Job:
    """Cancel a waiting job; ask a running one to stop for good, even if it was to pause.

    Raises:
        NotFound: there is no such job.
        IllegalTransition: it is finished.
    """
    job = get_job(connection, job_id, lock=True)
    if job.status is not JobStatus.RUNNING:
        return _finish(connection, job, JobEvent.CANCELLED, now)
    if job.requested is JobAction.CANCEL:
        return job
    return _move(connection, job, JobEvent.CANCEL_REQUESTED, now, requested=JobAction.CANCEL)


def resume(connection: Connection, job_id: int, now: float) -> Job:
    """Let a paused job wait for its turn again; withdraw a pause not carried out yet.

    An attempt that has begun to stop meanwhile is released, and the job waits for its turn.

    Raises:
        NotFound: there is no such job.
        IllegalTransition: it is neither paused nor asked to pause.
    """
    job = get_job(connection, job_id, lock=True)
    if job.requested is JobAction.PAUSE:
        return _move(connection, job, JobEvent.PAUSE_WITHDRAWN, now, requested=None)
    return _move(connection, job, JobEvent.RESUMED, now, lost=0)


def retry(connection: Connection, job_id: int, now: float) -> Job:
    """Let a failed or cancelled job wait for its turn again, with all its attempts.

    Raises:
        NotFound: there is no such job.
        IllegalTransition: it is neither failed nor cancelled.
    """
    job = get_job(connection, job_id, lock=True)
    return _move(connection, job, JobEvent.RETRIED, now, lost=0, error=None, finished_at=None)


# -- guarded writes -------------------------------------------------------------------------


def _claimed(connection: Connection, job_id: int, attempt: int) -> Job:
    job = get_job(connection, job_id, lock=True)
    if job.status is JobStatus.RUNNING and job.attempt == attempt:
        return job
    raise Superseded(
        f"attempt {attempt} of job {job_id} is void: "
        f"the job is {job.status}, its newest attempt is {job.attempt}"
    )


def _finish(
    connection: Connection,
    job: Job,
    event: JobEvent,
    now: float,
    data: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Job:
    changes = {**changes, **_NO_LEASE, "finished_at": now}
    return _move(connection, job, event, now, data, **changes)


def _move(
    connection: Connection,
    job: Job,
    event: JobEvent,
    now: float,
    data: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Job:
    status = advance(job.status, event)
    moved = job.evolve(status=status, updated_at=now, **changes)
    _write(connection, job, moved)
    append_event(connection, moved, event, data or {}, now)
    return moved


def _write(connection: Connection, before: Job, after: Job) -> None:
    moved = connection.execute(
        update(jobs)
        .where(
            jobs.c.id == before.id,
            jobs.c.attempt == before.attempt,
            jobs.c.status == before.status.value,
        )
        .values(**job_values(after))
    )
    if moved.rowcount != 1:
        raise Superseded(f"job {before.id} was changed by another while it was {before.status}")
