"""What executors say of modules, or what they last said while they are busy with a long step."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from functools import partial
from typing import Any

from app.domain.module import ModuleRecord
from app.errors.tree import ExecutorGone, HostError
from app.link import calls
from app.services.operations.executors import Executors

__all__ = ["LiveViews"]

_LONGEST_WAIT_SECONDS = 0.25
_MOST_KNOWN = 1024

View = dict[str, Any]


class LiveViews:
    """Asks executors for descriptions of modules, one call at a time for each module."""

    def __init__(self, executors: Executors) -> None:
        self._executors = executors
        self._asked: dict[int, asyncio.Task[View | None]] = {}
        self._known: OrderedDict[int, View] = OrderedDict()

    async def of(self, record: ModuleRecord) -> View | None:
        """Return a module's description; None if it is not on its device, or that is not known.

        This does not restore the module, and waits only shortly.
        """
        task = self._asked.get(record.id)
        if task is None:
            task = self._asked[record.id] = asyncio.create_task(self._ask(record))
            task.add_done_callback(partial(self._forget, record.id))
        try:
            async with asyncio.timeout(_LONGEST_WAIT_SECONDS):
                return await asyncio.shield(task)  # others may wait for it, now or later
        except TimeoutError:
            known = self._known.get(record.id)
            is_same = known is not None and known["generation"] == record.generation
            return known if is_same else None

    def _forget(self, module: int, task: asyncio.Task[View | None]) -> None:
        self._asked.pop(module, None)
        if not task.cancelled():
            task.exception()  # was raised for those who waited, if any did

    async def _ask(self, record: ModuleRecord) -> View | None:
        call, params = calls.to_call(calls.DescribeModule(module=record.name))
        try:
            reply = await self._executors.get(record.executor).call(call, params)
        except (ExecutorGone, HostError):
            self._known.pop(record.id, None)
            return None
        reply.release()
        self._known[record.id] = reply.result
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return reply.result
