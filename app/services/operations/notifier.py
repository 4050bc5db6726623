"""Wakes waiters in any thread or event loop after a change."""

from __future__ import annotations

import asyncio
import threading

__all__ = ["Notifier", "Notifiers"]


class Notifier:
    """Notified by any thread after a change; waited for by tasks of any event loop.

    A waiter takes a ticket, looks at the state, and then waits; a notification since the ticket
    ends the wait at once, so no change between the look and the wait is missed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._waiters: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def ticket(self) -> int:
        """Return a ticket for ``wait``."""
        return self._count

    def notify(self) -> None:
        """Wake all waiters."""
        with self._lock:
            self._count += 1
            waiters, self._waiters = self._waiters, set()
        for loop, event in waiters:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    async def wait(self, ticket: int, timeout_seconds: float) -> bool:
        """Wait for a notification after the ticket; return False on timeout."""
        waiter = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            if self._count != ticket:
                return True
            self._waiters.add(waiter)
        try:
            async with asyncio.timeout(timeout_seconds):
                await waiter[1].wait()
        except TimeoutError:
            return False
        finally:
            with self._lock:
                self._waiters.discard(waiter)
        return True


class Notifiers:
    """The notifiers of one server.

    Attributes:
        events: notified when there are new events, for the followers.
        work: notified when a job may be claimable, or is asked to stop.
        wishes: notified when a job is asked to stop. Nobody waits for it; its ticket only tells
            there are new requests.
    """

    def __init__(self) -> None:
        self.events = Notifier()
        self.work = Notifier()
        self.wishes = Notifier()

    def notify(self) -> None:
        """Notify all waiters."""
        self.wishes.notify()
        self.events.notify()
        self.work.notify()
