"""Unfinished jobs whose rows are damaged: they fail, so that nothing waits for them for ever.

No file has what a job was asked for. A finished job with a damaged row is left out of lists.
"""

from __future__ import annotations

import orjson
from sqlalchemy import Connection, select, text, update

from app.domain import job_transitions
from app.domain.job import TERMINAL, Job, JobStatus
from app.domain.moment import Moment
from app.store.events import append_events, of_job
from app.store.jobs import select_jobs
from app.store.rows import job_values, salvaged_job
from app.store.schema import jobs

__all__ = ["damaged_jobs", "fail_damaged"]

_UNFINISHED = tuple(status.value for status in JobStatus if status not in TERMINAL)
_COLUMNS = ("params", "progress", "error", "setback")


def damaged_jobs(connection: Connection) -> list[int]:
    """Return the ids of unfinished jobs whose rows are damaged."""
    if connection.dialect.name != "sqlite":
        return []  # it checks its pages and values by itself
    # The bare texts: with ``job_of`` for each of thousands of waiting jobs this would take long.
    columns = [text(f"jobs.{name}") for name in _COLUMNS]
    query = select(jobs.c.id, *columns).where(jobs.c.status.in_(_UNFINISHED))
    return [row[0] for row in connection.execute(query) if not all(map(_is_object, row[1:]))]


def fail_damaged(connection: Connection, job_ids: list[int], now: Moment) -> list[Job]:
    """Fail jobs whose rows are damaged, and write harmless values in place of damaged ones."""
    failed = []
    query = select_jobs().where(jobs.c.id.in_(job_ids), jobs.c.status.in_(_UNFINISHED))
    for row in connection.execute(query).all():
        move = job_transitions.unreadable(salvaged_job(row), now)
        assert move.event is not None
        values = job_values(move.job)
        connection.execute(update(jobs).where(jobs.c.id == row.id).values(**values))
        append_events(connection, [of_job(move.job, move.event, move.data)], now.wall)
        failed.append(move.job)
    return failed


def _is_object(value: str | None) -> bool:
    try:
        return value is None or isinstance(orjson.loads(value), dict)
    except ValueError:
        return False
