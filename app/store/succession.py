"""The ids that a database gives which takes the place of another one."""

from __future__ import annotations

from sqlalchemy import Connection, update

from app.store.jobs import reserve_job_ids
from app.store.schema import counters

__all__ = ["skip_ids"]


def skip_ids(connection: Connection, now: float) -> None:
    """Give later events and jobs greater ids than any that the database before gave.

    Its clients come back with these ids, and must not be told of another job. Milliseconds since
    1970 serve: no database has had more events, or jobs, than its life has milliseconds.
    """
    least = int(now * 1000)
    of_events = (counters.c.name == "events", counters.c.value < least)
    connection.execute(update(counters).where(*of_events).values(value=least))
    reserve_job_ids(connection, least)
