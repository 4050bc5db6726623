"""Notices modules that another server with the same store has changed or deleted.

Predictions use cached records, and the modules that are on executors. The versions in the store
decide whether these are still right.
"""

from __future__ import annotations

import asyncio

from app.errors.tree import NotFound
from app.services.modules.module_access import ModuleAccess
from app.services.modules.modules import ModuleService
from app.services.operations.background_tasks import cancel_tasks, in_thread, safely

__all__ = ["RecordWatch"]


class RecordWatch:
    """Compares the cached records with the store, about once a second."""

    def __init__(
        self, modules: ModuleService, access: ModuleAccess, every_seconds: float = 1.0
    ) -> None:
        self._modules = modules
        self._access = access
        self._every_seconds = every_seconds
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Compare from now on, until ``stop``."""
        self._task = asyncio.create_task(self._run(), name="watch records")

    async def stop(self) -> None:
        """Stop, after waiting for a comparison in progress."""
        task, self._task = self._task, None
        if task is not None:
            await cancel_tasks([task])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every_seconds)
            await safely(self.look)

    async def look(self) -> None:
        """Drop what was deleted, and read again what has a newer version."""
        known = [record for record in self._access.known_modules() if record.folder is None]
        if not known:
            return
        editions = await in_thread(self._modules.editions, [record.name for record in known])
        for record in known:
            now = editions.get(record.name)
            if now is None or now.id != record.id:
                await self._access.drop_deleted(record)
            elif now.version > record.version:
                try:
                    changed = await in_thread(self._modules.get, record.name)
                except NotFound:
                    continue  # the next look drops it
                self._access.refresh(changed)
