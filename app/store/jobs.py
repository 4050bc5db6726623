"""Queries on jobs that leave their status alone; ``queue`` has those that change it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Connection,
    Row,
    Select,
    bindparam,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    text,
)

from app.domain.job import TERMINAL, Job, JobEvent, JobKind, JobStatus
from app.errors.tree import InUse, NotFound
from app.store.damage import sound
from app.store.events import append_events, of_job
from app.store.filters import JobFilter
from app.store.idempotency import forget_key_of
from app.store.pages import Page, page_of_rows
from app.store.rows import job_of, job_values, salvaged_job
from app.store.schema import datasets, job_datasets, jobs, modules

__all__ = [
    "NewJob",
    "count_jobs",
    "dataset_is_used",
    "delete_job",
    "get_job",
    "has_unfinished",
    "insert_jobs",
    "list_jobs",
    "missing_job",
    "queue_positions",
    "reserve_job_ids",
    "running_job",
    "running_jobs",
    "select_jobs",
    "surplus_jobs",
    "typical_seconds",
    "unfinished_params",
]

_MOST_COMPARED = 20
_UNFINISHED = tuple(status.value for status in JobStatus if status not in TERMINAL)


def select_jobs() -> Select[Any]:
    """Return the query for all jobs, with the columns that ``job_of`` reads."""
    return select(jobs, modules.c.name.label("module")).join(
        modules, jobs.c.module_id == modules.c.id
    )


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to insert, with the ids of its module and of the datasets that it reads."""

    job: Job
    module_id: int
    dataset_ids: Collection[int] = ()


def insert_jobs(connection: Connection, new: Sequence[NewJob], now: float) -> list[Job]:
    """Insert queued jobs, each with its first event; return them with their ids."""
    if not new:
        return []
    made = [one.job.evolve(created_at=now, updated_at=now) for one in new]
    rows = [
        {"module_id": one.module_id, **job_values(job)} for one, job in zip(new, made, strict=True)
    ]
    ids = connection.scalars(_INSERT, rows)
    made = [job.evolve(id=job_id) for job, job_id in zip(made, ids, strict=True)]
    read = [
        {"job_id": job.id, "dataset_id": dataset_id}
        for one, job in zip(new, made, strict=True)
        for dataset_id in one.dataset_ids
    ]
    if read:
        connection.execute(_INSERT_DATASETS, read)
    entries = [of_job(job, JobEvent.SUBMITTED, {"kind": job.kind.value}) for job in made]
    append_events(connection, entries, now)
    return made


_INSERT = insert(jobs).returning(jobs.c.id, sort_by_parameter_order=True)
_INSERT_DATASETS = insert(job_datasets)


def get_job(connection: Connection, job_id: int, *, lock: bool = False) -> Job:
    """Return a job; raise NotFound.

    Args:
        lock: lock the job's row until the transaction ends.
    """
    query = select_jobs().where(jobs.c.id == job_id)
    row = connection.execute(query.with_for_update(of=jobs) if lock else query).one_or_none()
    if row is None:
        raise missing_job(job_id)
    return job_of(row)


def missing_job(job_id: int) -> NotFound:
    """Return the error for a job that does not exist."""
    return NotFound("job", job_id, "GET /v1/jobs lists those that do")


def list_jobs(
    connection: Connection, wanted: JobFilter, before: int | None, limit: int
) -> Page[Job]:
    """Return jobs, newest first, starting after the id ``before``."""
    query = select_jobs().where(*wanted.conditions()).order_by(jobs.c.id.desc()).limit(limit + 1)
    if before is not None:
        query = query.where(jobs.c.id < before)
    return page_of_rows(connection.execute(query).all(), limit, lambda row: row.id, job_of)


def count_jobs(connection: Connection) -> dict[JobStatus, int]:
    """Return the number of jobs by status; a status that no job has is left out."""
    query = select(jobs.c.status, func.count()).group_by(jobs.c.status)
    found = {JobStatus(status): count for status, count in connection.execute(query)}
    return {status: found.get(status, 0) for status in JobStatus}


def delete_job(connection: Connection, job_id: int) -> Job:
    """Delete a finished job and its events; return the job.

    Raises:
        NotFound: it does not exist.
        InUse: it is not finished.
    """
    row = connection.execute(select_jobs().where(jobs.c.id == job_id).with_for_update(of=jobs))
    job = _salvaged(row.one_or_none(), job_id)
    if job.status not in TERMINAL:
        raise InUse(
            f"job {job_id} is {job.status}; cancel it first, by POST /v1/jobs/{job_id}/cancel"
        )
    connection.execute(delete(jobs).where(jobs.c.id == job_id))
    forget_key_of(connection, "jobs", str(job_id))
    return job


def _salvaged(row: Row[Any] | None, job_id: int) -> Job:
    if row is None:
        raise missing_job(job_id)
    return salvaged_job(row)


def surplus_jobs(
    connection: Connection, keep: int | None, before: float | None, limit: int
) -> list[int]:
    """Return up to ``limit`` finished jobs to delete under the retention settings, oldest first.

    Args:
        keep: how many of the jobs that finished last are kept; None keeps all of them.
        before: jobs that finished before this time are not kept; None keeps them whatever their
            age.
    """
    finished = select(jobs.c.id).where(jobs.c.finished_at.is_not(None))
    in_surplus = []
    if before is not None:
        in_surplus.append(jobs.c.finished_at < before)
    if keep is not None:
        newest = select(jobs.c.finished_at).where(jobs.c.finished_at.is_not(None))
        newest = newest.order_by(jobs.c.finished_at.desc(), jobs.c.id.desc())
        oldest_kept = newest.offset(keep - 1).limit(1).scalar_subquery()
        in_surplus.append(jobs.c.finished_at < oldest_kept)
    query = finished.where(or_(*in_surplus)).order_by(jobs.c.finished_at, jobs.c.id).limit(limit)
    return list(connection.scalars(query)) if in_surplus else []


def queue_positions(connection: Connection, job_ids: Collection[int]) -> dict[int, int]:
    """Return the positions, from 1, of those of these jobs that are queued for their executors."""
    if not job_ids:
        return {}
    place = func.row_number().over(
        partition_by=modules.c.executor, order_by=(jobs.c.priority, jobs.c.id)
    )
    ranked = (
        select(jobs.c.id, place.label("place"))
        .join(modules, jobs.c.module_id == modules.c.id)
        .where(jobs.c.status == JobStatus.QUEUED.value)
        .subquery()
    )
    query = select(ranked.c.id, ranked.c.place).where(ranked.c.id.in_(list(job_ids)))
    return {job_id: place for job_id, place in connection.execute(query)}


def typical_seconds(connection: Connection, job: Job) -> float | None:
    """Return how long recent jobs of the same module and kind ran; None if there were none."""
    query = (
        select(jobs.c.ran_seconds)
        .join(modules, jobs.c.module_id == modules.c.id)
        .where(
            modules.c.name == job.module,
            jobs.c.kind == job.kind.value,
            jobs.c.status == JobStatus.SUCCEEDED.value,
        )
        .order_by(jobs.c.id.desc())
        .limit(_MOST_COMPARED)
    )
    seconds = list(connection.scalars(query))
    return sum(seconds) / len(seconds) if seconds else None


def running_jobs(connection: Connection) -> list[Job]:
    """Return all running jobs, oldest first."""
    query = select_jobs().where(jobs.c.status == JobStatus.RUNNING.value).order_by(jobs.c.id)
    return list(sound(connection.execute(query), job_of))


def running_job(connection: Connection, module: str) -> int | None:
    """Return the id of the job that is running on a module, None if there is none."""
    query = (
        select(jobs.c.id)
        .join(modules, jobs.c.module_id == modules.c.id)
        .where(modules.c.name == module, jobs.c.status == JobStatus.RUNNING.value)
        .limit(1)
    )
    return connection.scalar(query)


def reserve_job_ids(connection: Connection, least: int) -> None:
    """Make new jobs get ids greater than this one, which a job of another database has.

    Files name the job that wrote them, so a new job must not reuse its id.
    """
    newest = connection.scalar(select(func.max(jobs.c.id))) or 0
    if least <= newest:
        return
    if connection.dialect.name == "sqlite":
        row = {"least": least}
        given = connection.scalar(text("SELECT seq FROM sqlite_sequence WHERE name = 'jobs'"))
        if given is None:
            connection.execute(text("INSERT INTO sqlite_sequence VALUES ('jobs', :least)"), row)
        elif given < least:
            connection.execute(
                text("UPDATE sqlite_sequence SET seq = :least WHERE name = 'jobs'"), row
            )
        return
    sequence = func.pg_get_serial_sequence("jobs", "id")
    connection.execute(select(func.setval(sequence, func.greatest(least, func.nextval(sequence)))))


def has_unfinished(
    connection: Connection, module: str, kinds: Collection[JobKind] = tuple(JobKind)
) -> bool:
    """Return whether a module has an unfinished job of one of these kinds."""
    kept = {"module": module, "kinds": [kind.value for kind in kinds]}
    return connection.execute(_UNFINISHED_OF, kept).first() is not None


_UNFINISHED_OF = (
    select(jobs.c.id)
    .join(modules, jobs.c.module_id == modules.c.id)
    .where(
        modules.c.name == bindparam("module"),
        jobs.c.status.in_(_UNFINISHED),
        jobs.c.kind.in_(bindparam("kinds", expanding=True)),
    )
    .limit(1)
)


def unfinished_params(connection: Connection, module: str, kind: JobKind) -> list[dict[str, Any]]:
    """Return the parameters of a module's unfinished jobs of a kind, newest first."""
    rows = connection.execute(_UNFINISHED_PARAMS, {"module": module, "kind": kind.value})
    return [row.params for row in rows]


_UNFINISHED_PARAMS = (
    select(jobs.c.params)
    .join(modules, jobs.c.module_id == modules.c.id)
    .where(
        modules.c.name == bindparam("module"),
        jobs.c.status.in_(_UNFINISHED),
        jobs.c.kind == bindparam("kind"),
    )
    .order_by(jobs.c.id.desc())
)


def dataset_is_used(connection: Connection, name: str) -> bool:
    """Return whether an unfinished job reads a dataset."""
    used = exists(
        select(jobs.c.id)
        .join(job_datasets, job_datasets.c.job_id == jobs.c.id)
        .join(datasets, datasets.c.id == job_datasets.c.dataset_id)
        .where(datasets.c.name == name, jobs.c.status.in_(_UNFINISHED))
    )
    return bool(connection.scalar(select(used)))
