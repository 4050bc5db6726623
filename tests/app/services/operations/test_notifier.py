"""The bell wakes all waiters, and no ring between a look and a wait is lost."""

from __future__ import annotations

import asyncio
import threading
import time

from app.services.operations.notifier import Bell


async def test_a_ring_from_another_thread_wakes_every_waiter() -> None:
    bell = Bell()
    ticket = bell.ticket()
    waiters = [asyncio.create_task(bell.wait(ticket, 10.0)) for _ in range(3)]
    await asyncio.sleep(0)
    thread = threading.Thread(target=bell.ring)
    thread.start()
    assert await asyncio.gather(*waiters) == [True] * 3
    thread.join()


async def test_a_ring_before_the_wait_counts() -> None:
    bell = Bell()
    ticket = bell.ticket()
    bell.ring()
    assert await bell.wait(ticket, 0.0)


async def test_a_wait_without_a_ring_times_out() -> None:
    bell = Bell()
    began = time.monotonic()
    assert not await bell.wait(bell.ticket(), 0.05)
    assert time.monotonic() - began >= 0.04
    assert not bell._waiters


def test_a_waiter_of_a_closed_loop_does_no_harm() -> None:
    bell = Bell()

    async def give_up() -> None:
        task = asyncio.create_task(bell.wait(bell.ticket(), 10.0))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(give_up())
    bell.ring()
