"""Tasks of the server that outlive errors, and ends that are waited for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import ParamSpec, TypeVar

from app.errors import StorageFull, Unavailable

__all__ = ["cancel_tasks", "in_thread", "logged", "persistently", "repeat", "safely"]

_log = logging.getLogger(__name__)

AFTER_ERROR_SECONDS = 1.0

P = ParamSpec("P")
T = TypeVar("T")


async def repeat(step: Callable[[], Awaitable[None]]) -> None:
    """Do a step again and again; an error is logged, and delays what comes next."""
    while True:
        await safely(step)


async def cancel_tasks(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait for their ends."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def in_thread(step: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Run a step in a thread; who is cancelled meanwhile ends when the step has ended."""
    running = asyncio.ensure_future(asyncio.to_thread(step, *arguments, **options))
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        running.exception()  # nobody is left to be told of it
        raise cancelled
    return running.result()


async def safely(step: Callable[[], Awaitable[None]]) -> None:
    """Do a step; an error of the store or of ours is logged, and delays what comes next."""
    try:
        await step()
    except Exception:
        _log.exception("a task of the server goes on after an error")
        await asyncio.sleep(AFTER_ERROR_SECONDS)


async def logged(step: Callable[[], Awaitable[None]]) -> None:
    """Do a step; an error of the store or of ours is logged."""
    try:
        await step()
    except Exception:
        _log.exception("a task of the server goes on after an error")


async def persistently(step: Callable[[], T]) -> T:
    """Do a step in a thread, again and again while the store takes nothing."""
    while True:
        try:
            return await in_thread(step)
        except (Unavailable, StorageFull) as error:
            _log.error("what an executor reports waits: %s", error)
            await asyncio.sleep(AFTER_ERROR_SECONDS)
