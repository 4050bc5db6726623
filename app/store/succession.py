"""Keeping ids unique when one database replaces another."""

from __future__ import annotations

from sqlalchemy import Connection, update

from app.store.jobs import reserve_job_ids
from app.store.schema import counters

__all__ = ["skip_ids"]


def skip_ids(connection: Connection, now: float) -> None:
    """Make new events and jobs get ids greater than any that the replaced database gave out.

    Clients return with ids of the old database and must not be shown another job under one. The
    time in milliseconds since 1970 is large enough: no database has created jobs or events faster
    than one per millisecond.
    """
    least = int(now * 1000)
    of_events = (counters.c.name == "events", counters.c.value < least)
    connection.execute(update(counters).where(*of_events).values(value=least))
    reserve_job_ids(connection, least)
