"""Queries on the event log of jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from app.domain.job import EventRow, Job, JobEvent
from app.store.filters import EventFilter
from app.store.rows import event_of
from app.store.schema import counters, events, jobs, modules

__all__ = [
    "EventEntry",
    "append_events",
    "events_after",
    "newest_event_id",
    "skip_event_ids",
    "thin_out",
]


@dataclass(frozen=True, slots=True)
class EventEntry:
    """An event to be added: of a job, as it stands after it."""

    job: Job
    kind: JobEvent
    data: Mapping[str, Any]


def append_events(connection: Connection, entries: Sequence[EventEntry], now: float) -> None:
    """Add events, in their order.

    Ids come from a row that stays locked until the transaction ends, so they become visible in
    their order and a reader that asks for what came after an id misses nothing.
    """
    if not entries:
        return
    last = connection.execute(_TAKE_IDS, {"count": len(entries)}).scalar_one()
    rows = [
        {
            "id": event_id,
            "job_id": entry.job.id,
            "attempt": entry.job.attempt,
            "kind": entry.kind.value,
            "status": entry.job.status.value,
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
    kinds: Collection[JobEvent] | None = None,
    wanted: EventFilter | None = None,
) -> list[EventRow]:
    """Return events with ids greater than ``after``, oldest first.

    Args:
        job_id: of this job only.
        kinds: of these kinds only.
        wanted: only those that pass this filter.
    """
    query = _WITH_MODULES.where(events.c.id > after).order_by(events.c.id).limit(limit)
    query = query.where(*(wanted or EventFilter()).conditions())
    if job_id is not None:
        query = query.where(events.c.job_id == job_id)
    if kinds is not None:
        query = query.where(events.c.kind.in_([kind.value for kind in kinds]))
    return [event_of(row) for row in connection.execute(query)]


_WITH_MODULES = (
    select(events, modules.c.name.label("module"))
    .join(jobs, jobs.c.id == events.c.job_id)
    .join(modules, modules.c.id == jobs.c.module_id)
)


def newest_event_id(connection: Connection) -> int:
    """Return the id of the newest event of all, 0 where there was none."""
    found = connection.scalar(select(counters.c.value).where(counters.c.name == "events"))
    return int(found or 0)


def skip_event_ids(connection: Connection, now: float) -> None:
    """Give later events greater ids than any that was given by the database that this one replaces.

    Its followers come back with an id. Milliseconds since 1970 serve: no database has had more
    events than its life has milliseconds.
    """
    least = int(now * 1000)
    of_events = (counters.c.name == "events", counters.c.value < least)
    connection.execute(update(counters).where(*of_events).values(value=least))


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
