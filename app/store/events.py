"""Queries on the event log of jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from app.domain.job import EventRow, Job, JobEvent
from app.store.rows import event_of
from app.store.schema import counters, events

__all__ = ["append_event", "events_after", "newest_event_id", "thin_out"]


def append_event(
    connection: Connection, job: Job, kind: JobEvent, data: Mapping[str, Any], now: float
) -> int:
    """Add an event of a job as it stands after it; return the event's id.

    Ids come from a row that stays locked until the transaction ends, so they become visible in
    their order and a reader that asks for what came after an id misses nothing.
    """
    event_id: int = connection.execute(
        update(counters)
        .where(counters.c.name == "events")
        .values(value=counters.c.value + 1)
        .returning(counters.c.value)
    ).scalar_one()
    connection.execute(
        insert(events).values(
            id=event_id,
            job_id=job.id,
            attempt=job.attempt,
            kind=kind.value,
            status=job.status.value,
            data=dict(data),
            created_at=now,
        )
    )
    return event_id


def events_after(
    connection: Connection,
    after: int,
    limit: int,
    job_id: int | None = None,
    kinds: Collection[JobEvent] | None = None,
) -> list[EventRow]:
    """Return events with ids greater than ``after``, oldest first.

    Args:
        job_id: of this job only.
        kinds: of these kinds only.
    """
    query = select(events).where(events.c.id > after).order_by(events.c.id).limit(limit)
    if job_id is not None:
        query = query.where(events.c.job_id == job_id)
    if kinds is not None:
        query = query.where(events.c.kind.in_([kind.value for kind in kinds]))
    return [event_of(row) for row in connection.execute(query)]


def newest_event_id(connection: Connection) -> int:
    """Return the id of the newest event of all, 0 where there was none."""
    found = connection.scalar(select(counters.c.value).where(counters.c.name == "events"))
    return int(found or 0)


def thin_out(connection: Connection, job_id: int, kind: JobEvent, keep: int) -> int:
    """Remove all but the newest ``keep`` events of a kind of a job; return how many went."""
    of_kind = (events.c.job_id == job_id, events.c.kind == kind.value)
    oldest_kept = (
        select(events.c.id)
        .where(*of_kind)
        .order_by(events.c.id.desc())
        .offset(keep - 1)
        .limit(1)
        .scalar_subquery()
    )
    return connection.execute(
        delete(events).where(*of_kind, events.c.id < func.coalesce(oldest_kept, 0))
    ).rowcount
