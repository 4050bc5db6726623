"""Flow control of events from an executor to the store.

The executor counts unacknowledged events. Beyond a first limit it drops reports that later ones
supersede; beyond a second one its jobs wait, while calls are still answered. So every queue on the
way is bounded, and no end, checkpoint, metric or log line is ever lost.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

__all__ = ["EventFlow", "EventQueue"]

_THINNED_FROM = 64
"""Unacknowledged events from which on only the latest progress is kept, and statistics are
dropped."""

_MOST_UNDER_WAY = 256
"""Unacknowledged events from which on jobs wait. The gap leaves room for what cannot be dropped."""

Event: TypeAlias = dict[str, Any]
Taken: TypeAlias = Callable[[int], None]
_Job: TypeAlias = tuple[Any, Any]


class EventFlow:
    """The executor's end. One thread emits; ``taken`` may be called from any."""

    def __init__(self, send: Callable[[Event], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._under_way = 0
        self._progress: dict[_Job, Event] = {}
        self._left_out: Counter[_Job] = Counter()

    @property
    def is_full(self) -> bool:
        """True while jobs should wait."""
        return self._under_way >= _MOST_UNDER_WAY

    def emit(self, event: Event) -> None:
        """Send an event, unless it can be dropped and too many are unacknowledged."""
        job, kind = (event.get("job_id"), event.get("attempt")), event.get("type")
        if self._under_way >= _THINNED_FROM:
            if kind == "progress":
                self._progress[job] = event  # the latest one is sent before the next event
                return
            if kind == "statistics":
                self._left_out[job] += 1
                return
        # A checkpoint or an end must not arrive before the progress that led to it.
        if kind != "progress" and job in self._progress:
            self._pass(self._progress[job])
        self._progress.pop(job, None)
        if job in self._left_out:
            self._pass(_note(job, self._left_out.pop(job)))
        self._pass(event)

    def taken(self, count: int) -> None:
        """Record that this many more events were stored."""
        with self._lock:
            self._under_way -= count

    def _pass(self, event: Event) -> None:
        # Counted first, because the acknowledgement may arrive before ``_send`` returns; and sent
        # without the lock, because that blocks while the socket is full.
        with self._lock:
            self._under_way += 1
        self._send(event)


class EventQueue:
    """The API process's end, which outlives an executor's processes; belongs to the event loop."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[tuple[Event, Taken]] = asyncio.Queue()
        self._given: deque[Taken] = deque()

    def put(self, event: Event, taken: Taken) -> None:
        """Add an event, and the function to call when it is stored."""
        self._waiting.put_nowait((event, taken))

    async def events(self) -> AsyncIterator[Event]:
        """Yield events as they arrive."""
        while True:
            event, taken = await self._waiting.get()
            self._given.append(taken)
            yield event

    def taken(self, count: int) -> None:
        """Acknowledge the ``count`` oldest of the yielded events.

        Each goes to the process that it came from: one that was started since counts from zero.
        """
        told = Counter(self._given.popleft() for _ in range(min(count, len(self._given))))
        for taken, number in told.items():
            taken(number)


def _note(job: _Job, count: int) -> Event:
    job_id, attempt = job
    message = (
        f"{count} reports of statistics were dropped: they came faster than they could be stored"
    )
    named = {"job_id": job_id, "attempt": attempt}
    return {"type": "log", **named, "level": "warning", "message": message}
