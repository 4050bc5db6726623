"""Background tasks that survive errors, and cancellation that waits for tasks to end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import ParamSpec, TypeVar

from app.errors.tree import StorageFull, Unavailable

__all__ = ["cancel_tasks", "in_thread", "logged", "persistently", "repeat", "safely"]

_log = logging.getLogger(__name__)

AFTER_ERROR_SECONDS = 1.0

P = ParamSpec("P")
T = TypeVar("T")


async def repeat(step: Callable[[], Awaitable[None]]) -> None:
    """Repeat a step forever; an error is logged, and delays the next repetition.

    An error of the store is logged once, however often the step meets it.
    """
    told = ""
    while True:
        try:
            await step()
            told = ""
        except (Unavailable, StorageFull) as error:
            told = _tell("a background task waits", error, told)
            await asyncio.sleep(AFTER_ERROR_SECONDS)
        except Exception:
            _log.exception("a background task continues after an error")
            await asyncio.sleep(AFTER_ERROR_SECONDS)


async def cancel_tasks(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait for their ends."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def in_thread(step: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Run a step in a thread; cancellation takes effect only when the step has ended."""
    # A thread cannot be stopped: a caller that went on at once would act beside it, for example
    # close the store that the step is writing to.
    running = asyncio.ensure_future(asyncio.to_thread(step, *arguments, **options))
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        running.exception()  # marks it as retrieved: nobody is left to handle it
        raise cancelled
    return running.result()


async def safely(step: Callable[[], Awaitable[None]]) -> None:
    """Run a step; a service or store error is logged, and delays what comes next."""
    try:
        await step()
    except Exception:
        _log.exception("a background task continues after an error")
        await asyncio.sleep(AFTER_ERROR_SECONDS)


async def logged(step: Callable[[], Awaitable[None]]) -> None:
    """Run a step; a service or store error is logged."""
    try:
        await step()
    except Exception:
        _log.exception("a background task continues after an error")


async def persistently(step: Callable[[], T]) -> T:
    """Run a step in a thread, and retry while the store is unavailable."""
    told = ""
    while True:
        try:
            return await in_thread(step)
        except (Unavailable, StorageFull) as error:
            told = _tell("what an executor reports waits", error, told)
            await asyncio.sleep(AFTER_ERROR_SECONDS)


def _tell(what: str, error: Exception, told: str) -> str:
    """Log an error unless it was the last one told; return its text."""
    text = str(error)
    if text != told:
        _log.error("%s: %s", what, text)
    return text
