"""A notifier wakes all waiters, and no notification between a look and a wait is lost."""

from __future__ import annotations

import asyncio
import threading
import time

from app.services.operations.notifier import Notifier


async def test_a_notification_from_another_thread_wakes_every_waiter() -> None:
    notifier = Notifier()
    ticket = notifier.ticket()
    waiters = [asyncio.create_task(notifier.wait(ticket, 10.0)) for _ in range(3)]
    await asyncio.sleep(0)
    thread = threading.Thread(target=notifier.notify)
    thread.start()
    assert await asyncio.gather(*waiters) == [True] * 3
    thread.join()


async def test_a_ring_before_the_wait_counts() -> None:
    notifier = Notifier()
    ticket = notifier.ticket()
    notifier.notify()
    assert await notifier.wait(ticket, 0.0)


async def test_a_wait_without_a_ring_times_out() -> None:
    notifier = Notifier()
    began = time.monotonic()
    assert not await notifier.wait(notifier.ticket(), 0.05)
    assert time.monotonic() - began >= 0.04
    assert not notifier._waiters


def test_a_waiter_of_a_closed_loop_does_no_harm() -> None:
    notifier = Notifier()

    async def give_up() -> None:
        task = asyncio.create_task(notifier.wait(notifier.ticket(), 10.0))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(give_up())
    notifier.notify()
