"""Queries on jobs that change no status; ``queue`` has those that do."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, exists, func, insert, select, text

from app.domain.job import TERMINAL, Job, JobEvent, JobKind, JobStatus
from app.errors import NotFound
from app.store.events import EventEntry, append_events
from app.store.modules import module_id
from app.store.pages import Page, page_of
from app.store.rows import job_of, job_values
from app.store.schema import datasets, job_datasets, jobs, modules

__all__ = [
    "JobFilter",
    "count_jobs",
    "dataset_is_used",
    "get_job",
    "has_unfinished",
    "insert_job",
    "list_jobs",
    "missing_job",
    "reserve_job_ids",
    "running_jobs",
    "select_jobs",
]

_UNFINISHED = tuple(status.value for status in JobStatus if status not in TERMINAL)


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list; what is None does not matter."""

    module: str | None = None
    status: JobStatus | None = None
    kind: JobKind | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return the filter as SQL."""
        found: list[ColumnElement[bool]] = []
        if self.module is not None:
            found.append(modules.c.name == self.module)
        if self.status is not None:
            found.append(jobs.c.status == self.status.value)
        if self.kind is not None:
            found.append(jobs.c.kind == self.kind.value)
        return found


def select_jobs() -> Select[Any]:
    """Return the query of all jobs, with the columns that ``job_of`` reads."""
    return select(jobs, modules.c.name.label("module")).join(
        modules, jobs.c.module_id == modules.c.id
    )


def insert_job(connection: Connection, job: Job, dataset_ids: Iterable[int], now: float) -> Job:
    """Add a queued job with its first event; return it with its id.

    Raises:
        NotFound: the module does not exist.
    """
    job = job.evolve(created_at=now, updated_at=now)
    identity = module_id(connection, job.module, lock=True)
    result = connection.execute(insert(jobs).values(module_id=identity, **job_values(job)))
    assert result.inserted_primary_key is not None
    job = job.evolve(id=result.inserted_primary_key[0])
    rows = [{"job_id": job.id, "dataset_id": dataset_id} for dataset_id in set(dataset_ids)]
    if rows:
        connection.execute(insert(job_datasets), rows)
    data = {"kind": job.kind.value}
    append_events(connection, [EventEntry(job, JobEvent.SUBMITTED, data)], now)
    return job


def get_job(connection: Connection, job_id: int, *, lock: bool = False) -> Job:
    """Return a job; raise NotFound.

    Args:
        lock: keep others from changing it until the transaction ends.
    """
    query = select_jobs().where(jobs.c.id == job_id)
    row = connection.execute(query.with_for_update(of=jobs) if lock else query).one_or_none()
    if row is None:
        raise missing_job(job_id)
    return job_of(row)


def missing_job(job_id: int) -> NotFound:
    """Return the error of a job that is not there."""
    return NotFound("job", job_id, "GET /v1/jobs lists those that do")


def list_jobs(
    connection: Connection, wanted: JobFilter, before: int | None, limit: int
) -> Page[Job]:
    """Return jobs, newest first, from the one before id ``before``."""
    query = select_jobs().where(*wanted.conditions()).order_by(jobs.c.id.desc()).limit(limit + 1)
    if before is not None:
        query = query.where(jobs.c.id < before)
    found = [job_of(row) for row in connection.execute(query)]
    return page_of(found, limit, lambda job: job.id)


def count_jobs(connection: Connection) -> dict[JobStatus, int]:
    """Return the number of jobs by status; a status without a job has none."""
    query = select(jobs.c.status, func.count()).group_by(jobs.c.status)
    found = {JobStatus(status): count for status, count in connection.execute(query)}
    return {status: found.get(status, 0) for status in JobStatus}


def running_jobs(connection: Connection) -> list[Job]:
    """Return all running jobs, oldest first."""
    query = select_jobs().where(jobs.c.status == JobStatus.RUNNING.value).order_by(jobs.c.id)
    return [job_of(row) for row in connection.execute(query)]


def reserve_job_ids(connection: Connection, least: int) -> None:
    """Give later jobs greater ids than this one, which another database gave to a job.

    Files name the job that wrote them; no other job must seem to have.
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
    """Tell whether a module has jobs, of these kinds, that are not finished."""
    query = select_jobs().where(
        modules.c.name == module,
        jobs.c.status.in_(_UNFINISHED),
        jobs.c.kind.in_([kind.value for kind in kinds]),
    )
    return connection.execute(query.limit(1)).first() is not None


def dataset_is_used(connection: Connection, name: str) -> bool:
    """Tell whether a job that is not finished reads a dataset."""
    used = exists(
        select(jobs.c.id)
        .join(job_datasets, job_datasets.c.job_id == jobs.c.id)
        .join(datasets, datasets.c.id == job_datasets.c.dataset_id)
        .where(datasets.c.name == name, jobs.c.status.in_(_UNFINISHED))
    )
    return bool(connection.scalar(select(used)))
