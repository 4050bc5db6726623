"""Tasks that survive errors, and threads that are waited for."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from app.errors.database import DiskFailed
from app.errors.tree import DatabaseDamaged, ServiceError, StorageFull
from app.services.operations import background_tasks
from app.services.operations.background_tasks import (
    cancel_tasks,
    in_thread,
    logged,
    persistently,
    repeat,
)
from app.services.operations.notifier import Notifier


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():
            await asyncio.sleep(0.001)


async def test_a_task_cancelled_repeatedly_still_waits_for_its_thread() -> None:
    begun, may_end, has_ended = threading.Event(), threading.Event(), threading.Event()

    def step() -> None:
        begun.set()
        may_end.wait(30)
        has_ended.set()

    task = asyncio.create_task(in_thread(step))
    await until(begun.is_set)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert has_ended.is_set()


async def test_results_and_errors_of_a_thread_are_passed_on() -> None:
    assert await in_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod, 1, 0)


async def test_a_loop_woken_and_cancelled_at_the_same_time_ends() -> None:
    # wait_for of Python 3.11 swallows a cancellation that coincides with its result.
    notifier = Notifier()
    waits = asyncio.Event()

    async def step() -> None:
        waits.set()
        await notifier.wait(notifier.ticket(), 30)

    task = asyncio.create_task(repeat(step))
    await waits.wait()
    await asyncio.sleep(0)
    (event,) = (event for _, event in notifier._waiters)
    event.set()
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=60)
    try:
        assert done
    finally:
        with contextlib.suppress(asyncio.CancelledError):
            task.cancel()
            await task


async def test_errors_are_survived_but_not_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_tasks, "AFTER_ERROR_SECONDS", 0.001)
    rounds = 0

    async def fail() -> None:
        nonlocal rounds
        rounds += 1
        raise RuntimeError("of a test")

    task = asyncio.create_task(repeat(fail))
    await until(lambda: rounds >= 3)
    await cancel_tasks([task])
    assert task.cancelled()


@pytest.mark.parametrize("error", [StorageFull(), DatabaseDamaged(Path("jobs.db"), "malformed")])
async def test_temporary_store_errors_are_waited_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: ServiceError
) -> None:
    monkeypatch.setattr(background_tasks, "AFTER_ERROR_SECONDS", 0.001)
    answers = [error, error, None]

    def step() -> str:
        if (error := answers.pop(0)) is not None:
            raise error
        return "entered"

    assert await persistently(step) == "entered"
    assert len(caplog.records) == 1, "told once"


async def test_a_loop_tells_an_error_of_the_store_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background_tasks, "AFTER_ERROR_SECONDS", 0.001)
    path = Path("jobs.db")
    failures = [DiskFailed(path, "EIO")] * 3 + [None] + [DiskFailed(path, "EIO"), StorageFull()] * 2

    async def step() -> None:
        if not failures:
            await asyncio.Event().wait()
        if (error := failures.pop(0)) is not None:
            raise error

    task = asyncio.create_task(repeat(step))
    await until(lambda: not failures and len(caplog.records) >= 5)
    await cancel_tasks([task])
    assert ["EIO" in one.message for one in caplog.records] == [True, True, False, True, False]
    assert not any(one.exc_info for one in caplog.records), "no traceback"


async def test_a_step_cancelled_before_it_begins_never_ran() -> None:
    async def step() -> None:
        raise AssertionError("it was begun")

    await cancel_tasks([asyncio.create_task(logged(step))])
    gc.collect()  # would warn of a coroutine that was never awaited
