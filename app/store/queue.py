"""The job queue: every change of a job's status, each guarded and each with its event.

    claim                                   queued  → running     a new attempt, under a lease
    renew, record                           running → running     the attempt reports
    succeed, fail, cancel                   running → ...         the attempt ends the job
    release, lose                           running → ...         the attempt ends, the job goes on
    expire                                  any but finished → failed, by way of a request
    request_pause, request_cancel, resume, retry                  what clients ask for

Every report of an attempt is guarded by (job, attempt, running): an attempt that was presumed dead
and returns updates no row and gets Superseded. ``job_moves`` says what each change does to a job.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import Connection, Select, bindparam, exists, or_, select, update
from sqlalchemy.exc import IntegrityError

from app.domain import job_transitions
from app.domain.fit_epochs import goes_on_counting
from app.domain.job import Job, JobAction, JobEvent, JobKind, JobStatus
from app.domain.job_transitions import Move
from app.domain.moment import Moment
from app.errors.tree import Conflict, NotFound, Superseded
from app.store.damage import sound
from app.store.events import EventEntry, append_events, of_job
from app.store.jobs import get_job, missing_job, select_jobs
from app.store.modules import module_outline
from app.store.numbering import begin_of_fit, versions_in_the_way
from app.store.rows import job_columns, job_of
from app.store.schema import jobs, modules

__all__ = [
    "Report",
    "cancel",
    "claim",
    "enter",
    "expire",
    "fail",
    "has_late",
    "lose",
    "next_jobs",
    "overdue",
    "record",
    "release",
    "renew",
    "request_cancel",
    "request_pause",
    "requested_jobs",
    "resume",
    "retry",
    "succeed",
]

_MOST_NAMED = 10

Change: TypeAlias = Callable[[Job], Move]


# -- attempts -------------------------------------------------------------------------------


def next_jobs(connection: Connection, executor: str, now: Moment, count: int) -> list[Job]:
    """Return the jobs that an executor would run next, at most one of each module.

    They are the first in the order of (priority, id) among the jobs that are due and whose modules
    have no running job.
    """
    # Twice as many rows as wanted, because several may be of one module; rarely a second query.
    found: dict[str, Job] = {}
    where = {"executor": executor, "now": now.steady, "most": 2 * count}
    while len(found) < count:
        rows = connection.execute(_WAITING, {**where, "found": list(found)}).all()
        before = len(found)
        for job in sound(rows, job_of):
            found.setdefault(job.module, job)
        if len(rows) < 2 * count or len(found) == before:
            break
    return list(found.values())[:count]


_OTHER = jobs.alias()
_WAITING = (
    select_jobs()
    .where(
        jobs.c.status == JobStatus.QUEUED.value,
        modules.c.executor == bindparam("executor"),
        modules.c.name.not_in(bindparam("found", expanding=True)),
        or_(jobs.c.not_before.is_(None), jobs.c.not_before <= bindparam("now")),
        ~exists().where(
            _OTHER.c.module_id == jobs.c.module_id, _OTHER.c.status == JobStatus.RUNNING.value
        ),
    )
    .order_by(jobs.c.priority, jobs.c.id)
    .limit(bindparam("most"))
)


def claim(
    connection: Connection, candidates: Sequence[Job], executor: str, server: str, now: Moment
) -> list[Job]:
    """Start attempts of jobs that ``next_jobs`` returned, possibly in an earlier transaction.

    Returns:
        Those that nobody else has begun or changed since; none where another job of a module of
        theirs was begun meanwhile.
    """
    moves: list[Move] = []
    try:
        with connection.begin_nested():
            for job in candidates:
                move = job_transitions.claimed(_numbered(connection, job), executor, server, now)
                with contextlib.suppress(Superseded):
                    _write(connection, job, move.job)
                    moves.append(move)
    except IntegrityError:
        return []
    entries = [of_job(move.job, JobEvent.CLAIMED, move.data) for move in moves]
    append_events(connection, entries, now.wall)
    return [move.job for move in moves]


def _numbered(connection: Connection, job: Job) -> Job:
    """Return a job that starts; a fit begins later if others have written versions meanwhile."""
    if job.kind is not JobKind.FIT or job.attempt or not goes_on_counting(job.params):
        return job
    begin = begin_of_fit(connection, module_outline(connection, job.module), job)
    return job.evolve(begin_epoch=max(begin, job.begin_epoch or 0))


@dataclass(frozen=True, slots=True)
class Report:
    """A report of an attempt, as the change that it makes to the job."""

    job_id: int
    attempt: int
    change: Change


def enter(
    connection: Connection, reports: Sequence[Report], now: Moment
) -> list[Job | Superseded | NotFound]:
    """Apply the reports of attempts in order; each job is read and written only once.

    Returns:
        For each report the job after it, or why it is void.
    """
    before = _lock_jobs(connection, {report.job_id for report in reports})
    after = dict(before)
    entries: list[EventEntry] = []
    outcomes: list[Job | Superseded | NotFound] = []
    for report in reports:
        job = after.get(report.job_id)
        if job is None:
            outcomes.append(missing_job(report.job_id))
        elif job.status is not JobStatus.RUNNING or job.attempt != report.attempt:
            outcomes.append(_void(job, report.attempt))
        else:
            move = report.change(job)
            after[job.id] = move.job
            outcomes.append(move.job)
            if move.event is not None:
                entries.append(of_job(move.job, move.event, move.data))
    for job_id, job in before.items():
        _write(connection, job, after[job_id])
    append_events(connection, entries, now.wall)
    return outcomes


def renew(connection: Connection, job_id: int, attempt: int, now: Moment) -> Job:
    """Extend an attempt's lease; return the job, which carries any request to stop.

    Raises:
        Superseded: the attempt no longer holds the job.
    """
    return _enter_one(
        connection, job_id, attempt, now, lambda job: job_transitions.renewed(job, now)
    )


def record(
    connection: Connection,
    job_id: int,
    attempt: int,
    kind: JobEvent,
    data: Mapping[str, Any],
    now: Moment,
) -> Job:
    """Record a report of an attempt: progress, metrics, a log line or a checkpoint."""
    return _enter_one(
        connection, job_id, attempt, now, lambda job: job_transitions.recorded(job, kind, data, now)
    )


def succeed(
    connection: Connection, job_id: int, attempt: int, result: Mapping[str, Any], now: Moment
) -> Job:
    """End an attempt and its job in success."""
    return _enter_one(
        connection, job_id, attempt, now, lambda job: job_transitions.succeeded(job, result, now)
    )


def fail(
    connection: Connection, job_id: int, attempt: int, error: Mapping[str, Any], now: Moment
) -> Job:
    """End a failed attempt; its job too, unless the error is transient and retries are left."""
    return _enter_one(
        connection, job_id, attempt, now, lambda job: job_transitions.failed(job, error, now)
    )


def cancel(connection: Connection, job_id: int, attempt: int, now: Moment) -> Job:
    """End an attempt and its job, as a client asked."""
    return _enter_one(
        connection, job_id, attempt, now, lambda job: job_transitions.cancelled(job, now)
    )


def release(connection: Connection, job_id: int, attempt: int, reason: str, now: Moment) -> Job:
    """End an attempt cleanly: its job is paused if a client asked for that, else requeued."""
    return _enter_one(
        connection, job_id, attempt, now, lambda job: job_transitions.released(job, reason, now)
    )


def lose(
    connection: Connection,
    job_id: int,
    attempt: int,
    reason: str,
    now: Moment,
    *,
    waits: bool = False,
    counts: bool = True,
) -> Job:
    """End an attempt that died, as ``release`` does; after too many in a row the job fails."""

    def move(job: Job) -> job_transitions.Move:
        return job_transitions.lost(job, reason, now, waits=waits, counts=counts)

    return _enter_one(connection, job_id, attempt, now, move)


def overdue(connection: Connection, now: Moment) -> list[Job]:
    """Return running jobs whose lease has expired, oldest first."""
    query = select_jobs().where(
        jobs.c.status == JobStatus.RUNNING.value, jobs.c.lease_until < now.steady
    )
    return [job_of(row) for row in connection.execute(query.order_by(jobs.c.id))]


def requested_jobs(connection: Connection, job_ids: Iterable[int]) -> list[Job]:
    """Return those of these jobs that have been asked to stop."""
    query = select_jobs().where(
        jobs.c.status == JobStatus.RUNNING.value,
        jobs.c.requested.is_not(None),
        jobs.c.id.in_(list(job_ids)),
    )
    return list(sound(connection.execute(query), job_of))


# -- time -----------------------------------------------------------------------------------


def expire(connection: Connection, now: Moment) -> list[Job]:
    """Fail the waiting jobs that are out of time; ask the running ones to stop for that reason.

    Returns:
        All of them, as they are now.
    """
    found = _lock_jobs(connection, set(connection.scalars(_late(now)))).values()
    late = [job for job in found if job.expires_at is not None and job.expires_at <= now.steady]
    return [_save(connection, job, job_transitions.expired(job, now), now) for job in late]


def has_late(connection: Connection, now: Moment) -> bool:
    """Return whether ``expire`` would find a job."""
    return connection.scalar(_late(now).limit(1)) is not None


def _late(now: Moment) -> Select[tuple[int]]:
    return select(jobs.c.id).where(
        jobs.c.expires_at <= now.steady,
        jobs.c.is_expiring.is_(False),
        or_(jobs.c.requested.is_(None), jobs.c.requested != JobAction.CANCEL.value),
    )


# -- what clients ask for -------------------------------------------------------------------


def request_pause(connection: Connection, job_id: int, now: Moment) -> Job:
    """Pause a queued job; ask a running one to pause.

    Raises:
        NotFound: the job does not exist.
        IllegalTransition: it is finished or paused, or is stopping for another reason.
    """
    job = get_job(connection, job_id, lock=True)
    return _save(connection, job, job_transitions.pause_requested(job, now), now)


def request_cancel(connection: Connection, job_id: int, now: Moment) -> Job:
    """Cancel a waiting job; ask a running one to stop, even if it was asked to pause.

    Raises:
        NotFound: the job does not exist.
        IllegalTransition: it is finished.
    """
    job = get_job(connection, job_id, lock=True)
    return _save(connection, job, job_transitions.cancel_requested(job, now), now)


def resume(connection: Connection, job_id: int, now: Moment) -> Job:
    """Requeue a paused job, or withdraw a request to pause.

    If the attempt has already begun to stop, it is released and the job is requeued.

    Raises:
        NotFound: the job does not exist.
        IllegalTransition: it is neither paused nor asked to pause.
    """
    job = get_job(connection, job_id, lock=True)
    return _save(connection, job, job_transitions.resumed(job, now), now)


def retry(connection: Connection, job_id: int, now: Moment) -> Job:
    """Requeue a failed or cancelled job with its full number of attempts.

    Raises:
        NotFound: the job does not exist.
        IllegalTransition: it is neither failed nor cancelled.
        Conflict: others have written versions that it would write.
    """
    job = get_job(connection, job_id, lock=True)
    move = job_transitions.retried(job, now)
    taken = versions_in_the_way(connection, job)
    if taken:
        raise Conflict(
            f"job {job_id} cannot go on: module {job.module!r} has got version "
            f"{', '.join(map(str, taken[:_MOST_NAMED]))} since, which it would replace; submit a "
            "new fit, which goes on counting"
        )
    return _save(connection, job, move, now)


# -- guarded writes -------------------------------------------------------------------------


def _enter_one(
    connection: Connection, job_id: int, attempt: int, now: Moment, change: Change
) -> Job:
    (outcome,) = enter(connection, [Report(job_id, attempt, change)], now)
    if isinstance(outcome, Job):
        return outcome
    raise outcome


def _void(job: Job, attempt: int) -> Superseded:
    return Superseded(
        f"attempt {attempt} of job {job.id} is void: "
        f"the job is {job.status}, its newest attempt is {job.attempt}"
    )


def _lock_jobs(connection: Connection, job_ids: set[int]) -> dict[int, Job]:
    """Return jobs by id, their rows locked until the transaction ends."""
    if not job_ids:
        return {}
    rows = connection.execute(_LOCK, {"job_ids": sorted(job_ids)})
    return {job.id: job for job in sound(rows, job_of)}


_LOCK = (
    select_jobs()
    .where(jobs.c.id.in_(bindparam("job_ids", expanding=True)))
    .order_by(jobs.c.id)
    .with_for_update(of=jobs)
)


def _save(connection: Connection, before: Job, move: Move | None, now: Moment) -> Job:
    """Save a move with its event; None saves nothing."""
    if move is None:
        return before
    _write(connection, before, move.job)
    assert move.event is not None
    append_events(connection, [of_job(move.job, move.event, move.data)], now.wall)
    return move.job


_UPDATE = update(jobs).where(
    jobs.c.id == bindparam("job_before"),
    jobs.c.attempt == bindparam("attempt_before"),
    jobs.c.status == bindparam("status_before"),
)


def _write(connection: Connection, before: Job, after: Job) -> None:
    changed = {
        field.name
        for field in dataclasses.fields(Job)
        if getattr(after, field.name) != getattr(before, field.name)
    }
    if not changed:
        return
    guard = {
        "job_before": before.id,
        "attempt_before": before.attempt,
        "status_before": before.status.value,
    }
    moved = connection.execute(_UPDATE, {**guard, **job_columns(after, changed)})
    if moved.rowcount != 1:
        raise Superseded(
            f"job {before.id} was changed by another transaction while it was {before.status}"
        )
