"""Queries on the event log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, insert, select, update

from app.domain.events import EventRow, EventType, Happening
from app.domain.job import Job, JobEvent, JobStatus
from app.domain.module import ModuleRecord
from app.store.damage import sound
from app.store.filters import EventFilter
from app.store.rows import event_of
from app.store.schema import counters, events

__all__ = [
    "EventEntry",
    "append_events",
    "events_after",
    "keep_server_events",
    "newest_event_id",
    "of_executor",
    "of_job",
    "of_module",
    "thin_out",
]


@dataclass(frozen=True, slots=True)
class EventEntry:
    """An event to append; see ``EventRow``."""

    type: EventType
    data: Mapping[str, Any]
    module: str | None = None
    executor: str | None = None
    job_id: int | None = None
    attempt: int | None = None
    status: JobStatus | None = None


def of_job(job: Job, type: JobEvent, data: Mapping[str, Any]) -> EventEntry:
    """Return an event about a job, with the job's state after it."""
    return EventEntry(type, data, job.module, job.executor, job.id, job.attempt, job.status)


def of_module(record: ModuleRecord, *happened: Happening) -> list[EventEntry]:
    """Return an event about a module."""
    name, executor = record.public_name, record.executor
    return [EventEntry(one.type, one.data, name, executor) for one in happened]


def of_executor(executor: str, happened: Happening) -> EventEntry:
    """Return an event about an executor."""
    return EventEntry(happened.type, happened.data, None, executor)


def append_events(connection: Connection, entries: Sequence[EventEntry], now: float) -> None:
    """Append events in the given order.

    Ids are taken from a counter row that stays locked until the transaction ends. Events therefore
    become visible in the order of their ids, and a reader that asks for everything after an id
    misses nothing. Call this last in a transaction: other writers of events wait for the lock.
    """
    if not entries:
        return
    last = connection.execute(_TAKE_IDS, {"count": len(entries)}).scalar_one()
    rows = [
        {
            "id": event_id,
            "job_id": entry.job_id,
            "module": entry.module,
            "executor": entry.executor,
            "attempt": entry.attempt,
            "type": entry.type.value,
            "status": None if entry.status is None else entry.status.value,
            "data": dict(entry.data),
            "created_at": now,
        }
        for event_id, entry in enumerate(entries, last - len(entries) + 1)
    ]
    connection.execute(_INSERT, rows)


_TAKE_IDS = (
    update(counters)
    .where(counters.c.name == "events")
    .values(value=counters.c.value + bindparam("count"))
    .returning(counters.c.value)
)
_INSERT = insert(events)


def events_after(
    connection: Connection,
    after: int,
    limit: int,
    job_id: int | None = None,
    types: Collection[EventType] | None = None,
    wanted: EventFilter | None = None,
) -> list[EventRow]:
    """Return events with ids greater than ``after``, oldest first.

    Args:
        job_id: only events of this job.
        types: only events of these types.
        wanted: only events that pass this filter.
    """
    query = select(events).where(events.c.id > after).order_by(events.c.id).limit(limit)
    query = query.where(*(wanted or EventFilter()).conditions())
    if job_id is not None:
        query = query.where(events.c.job_id == job_id)
    if types is not None:
        query = query.where(events.c.type.in_([one.value for one in types]))
    return list(sound(connection.execute(query), event_of))


def newest_event_id(connection: Connection) -> int:
    """Return the id of the newest event, 0 if there is none."""
    found = connection.scalar(select(counters.c.value).where(counters.c.name == "events"))
    return int(found or 0)


def thin_out(connection: Connection, job_id: int, type: JobEvent, keep: int) -> int:
    """Delete all but the newest ``keep`` events of a type of a job; return the number deleted."""
    return _keep_newest(connection, (events.c.job_id == job_id, events.c.type == type.value), keep)


def keep_server_events(connection: Connection, keep: int) -> int:
    """Delete all but the newest ``keep`` events of no job; return how many were deleted."""
    return _keep_newest(connection, (events.c.job_id.is_(None),), keep)


def _keep_newest(connection: Connection, wanted: Sequence[ColumnElement[bool]], keep: int) -> int:
    oldest_kept = (
        select(events.c.id)
        .where(*wanted)
        .order_by(events.c.id.desc())
        .offset(keep - 1)
        .limit(1)
        .scalar_subquery()
    )
    return connection.execute(
        delete(events).where(*wanted, events.c.id < func.coalesce(oldest_kept, 0))
    ).rowcount
