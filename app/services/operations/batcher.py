"""Batches concurrent calls of a blocking function: one thread and one disk sync for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

__all__ = ["Batcher"]

_MOST_AT_ONCE = 64

T = TypeVar("T")
R = TypeVar("R")


class Batcher(Generic[T, R]):
    """A blocking function of several items; calls that arrive while it runs are its next batch."""

    def __init__(self, do: Callable[[Sequence[T]], Sequence[R | Exception]]) -> None:
        """Prepare.

        Args:
            do: handles several items; returns the result of each, or the error to raise for it.
        """
        self._do = do
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._working: asyncio.Task[None] | None = None

    async def __call__(self, asked: T) -> R:
        """Return the result for an item, or raise its error."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, future))
        if self._working is None:
            self._working = asyncio.create_task(self._work(), name="do what is asked together")
        return await future

    async def _work(self) -> None:
        try:
            while self._waiting:
                group = self._waiting[:_MOST_AT_ONCE]
                del self._waiting[: len(group)]
                await self._settle(group)
        finally:
            self._working = None

    async def _settle(self, group: list[tuple[T, asyncio.Future[R]]]) -> None:
        outcomes: Sequence[R | Exception]
        try:
            outcomes = await asyncio.to_thread(self._do, [asked for asked, _ in group])
        except Exception as error:
            outcomes = [error] * len(group)
        for (_, future), outcome in zip(group, outcomes, strict=True):
            if future.done():  # the caller was cancelled
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
