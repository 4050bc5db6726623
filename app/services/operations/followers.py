"""Followers of the event stream: each new event is read once for all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable

from app.domain.events import EventRow
from app.domain.job import TERMINAL, JobStatus
from app.services.operations.notifier import Notifier
from app.store.events import events_after, newest_event_id
from app.store.filters import EventFilter
from app.store.jobs import get_job
from app.store.store import Store

__all__ = ["Followers"]

_EVENTS_AT_ONCE = 500
_LONGEST_WAIT_SECONDS = 2.0  # events of another server notify nobody here
_LONGEST_SILENCE_SECONDS = 2.0  # then a keepalive shows whether the client is still there
_LONGEST_TAIL = 500
_MOST_ENCODED = 500  # a follower further behind encodes anew what others had encoded


class Followers:
    """The followers of one server, all in the same event loop."""

    def __init__(self, store: Store, notifier: Notifier) -> None:
        self._store = store
        self._notifier = notifier
        self._tail = _Tail(store, notifier)
        self._encoded: dict[int, bytes] = {}
        self._is_over = False

    async def stream(
        self,
        job_id: int | None,
        after: int,
        encode: Callable[[EventRow], bytes],
        wanted: EventFilter | None = None,
    ) -> AsyncGenerator[bytes | None, None]:
        """Yield encoded events; each is encoded once for all followers. See ``follow``."""
        async for row in self.follow(job_id, after, wanted):
            yield None if row is None else self._encode(row, encode)

    def _encode(self, row: EventRow, encode: Callable[[EventRow], bytes]) -> bytes:
        found = self._encoded.get(row.id)
        if found is None:
            found = self._encoded[row.id] = encode(row)
            if len(self._encoded) > _MOST_ENCODED:
                del self._encoded[next(iter(self._encoded))]
        return found

    async def follow(
        self, job_id: int | None, after: int, wanted: EventFilter | None = None
    ) -> AsyncGenerator[EventRow | None, None]:
        """Yield events after an id as they occur; see ``JobService.follow``."""
        wanted = wanted or EventFilter()
        status: JobStatus | None = None
        is_behind = True  # older events must be read from the store
        silent_since: float | None = None  # None until all past events were yielded
        while not self._is_over:
            ticket = self._notifier.ticket()
            newest = await self._tail.refresh()
            recent = None if is_behind else self._tail.after(after, job_id, wanted)
            if recent is None:
                status, after, rows = await asyncio.to_thread(self._look, job_id, after, wanted)
            else:
                rows = recent
            is_behind = len(rows) == _EVENTS_AT_ONCE
            for row in rows:
                after, status = row.id, row.status
                yield row
            if is_behind:
                continue
            if job_id is not None and status in TERMINAL:
                return
            after = max(after, newest)  # everything up to it was yielded or does not match
            now = time.monotonic()
            is_silent = not rows and now - (silent_since or 0) >= _LONGEST_SILENCE_SECONDS
            if silent_since is None or is_silent:
                silent_since = now
                yield None
            elif rows:
                silent_since = now
            await self._notifier.wait(ticket, _LONGEST_WAIT_SECONDS)

    def end(self) -> None:
        """End all streams for good."""
        self._is_over = True
        self._notifier.notify()

    def _look(
        self, job_id: int | None, after: int, wanted: EventFilter
    ) -> tuple[JobStatus | None, int, list[EventRow]]:
        with self._store.read() as connection:
            status = None if job_id is None else get_job(connection, job_id).status
            if after > newest_event_id(connection):  # the id comes from another database
                after = 0
            rows = events_after(connection, after, _EVENTS_AT_ONCE, job_id, wanted=wanted)
            return status, after, rows


class _Tail:
    """The newest events of all jobs, modules and executors, shared by the followers."""

    def __init__(self, store: Store, notifier: Notifier) -> None:
        self._store = store
        self._notifier = notifier
        self._lock = asyncio.Lock()
        self._rows: list[EventRow] = []
        self._begins_after: int | None = None
        self._ticket: int | None = None
        self._read_at = 0.0

    async def refresh(self) -> int:
        """Read new events, unless another follower just did; return the id of the newest event."""
        async with self._lock:
            ticket = self._notifier.ticket()
            is_fresh = time.monotonic() - self._read_at < _LONGEST_WAIT_SECONDS / 2
            if ticket != self._ticket or not is_fresh:
                await self._extend()
                self._ticket, self._read_at = ticket, time.monotonic()
        return self._newest()

    def after(
        self, event_id: int, job_id: int | None, wanted: EventFilter
    ) -> list[EventRow] | None:
        """Return the events of one job or of everything after an id; None if the tail no longer
        reaches back that far."""
        assert self._begins_after is not None
        if event_id < self._begins_after:
            return None
        found = []
        for row in reversed(self._rows):
            if row.id <= event_id:
                break
            if (job_id is None or row.job_id == job_id) and wanted.passes(row):
                found.append(row)
        return found[::-1]

    def _newest(self) -> int:
        assert self._begins_after is not None
        return self._rows[-1].id if self._rows else self._begins_after

    async def _extend(self) -> None:
        if self._begins_after is None:
            self._begins_after = await asyncio.to_thread(self._read_newest_id)
        while rows := await asyncio.to_thread(self._read, self._newest()):
            self._rows += rows
        surplus = len(self._rows) - _LONGEST_TAIL
        if surplus > 0:
            self._begins_after = self._rows[surplus - 1].id
            del self._rows[:surplus]

    def _read_newest_id(self) -> int:
        with self._store.read() as connection:
            return newest_event_id(connection)

    def _read(self, after: int) -> list[EventRow]:
        with self._store.read() as connection:
            return events_after(connection, after, _EVENTS_AT_ONCE)
