"""Saves parameters that exist only in memory when the server shuts down cleanly.

Each module gets a checkpoint with a free batch number, in the epoch of the checkpoint from which it
would have been restored. So no version changes, and no checkpoint of a client is overwritten.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable

from app.domain.checkpoint import CheckpointTag
from app.domain.module import ModuleRecord
from app.errors.tree import ExecutorGone
from app.files.checkpoint_files import list_tags
from app.link import calls
from app.link.client import ExecutorClient
from app.services.modules.checkpoints import CheckpointService
from app.services.modules.module_access import ModuleAccess
from app.services.modules.modules import ModuleService
from app.services.operations.background_tasks import in_thread, logged
from app.services.operations.executors import Executors, tell

__all__ = ["UnsavedModules"]

_log = logging.getLogger(__name__)

_SECONDS = 15.0
"""Whoever stops the server kills it if it takes too long."""


class UnsavedModules:
    """Saves modules that would lose their parameters when this server's executors stop."""

    def __init__(
        self,
        modules: ModuleService,
        checkpoints: CheckpointService,
        executors: Executors,
        access: ModuleAccess,
        seconds: float = _SECONDS,
    ) -> None:
        """Prepare.

        Args:
            seconds: time limit for all saves together.
        """
        self._modules = modules
        self._checkpoints = checkpoints
        self._executors = executors
        self._access = access
        self._seconds = seconds

    async def save(self) -> None:
        """Save all of them; log those that could not be saved, or not in time.

        Call it when jobs have stopped, but executors have not.
        """
        await logged(self._save_all)

    async def _save_all(self) -> None:
        unsaved = await in_thread(self._modules.unsaved, self._executors.names)
        waiting = {record.name for record in unsaved}
        try:
            async with asyncio.timeout(self._seconds):
                await asyncio.gather(
                    *(self._save_those_of(client, unsaved, waiting) for client in self._executors)
                )
        except TimeoutError:
            for name in sorted(waiting):
                _not_saved(name, f"the stop waits no longer than {self._seconds:g} s for it")

    async def _save_those_of(
        self, client: ExecutorClient, unsaved: Iterable[ModuleRecord], waiting: set[str]
    ) -> None:
        """Save one executor's modules one after the other, as its device does anyway."""
        for record in unsaved:
            if record.executor == client.name:
                try:
                    tag = await self._save(client, record.name)
                except Exception as error:  # no error may keep the server from stopping
                    _not_saved(record.name, str(error))
                else:
                    _log.info("module %s: saved at the stop as checkpoint %s", record.name, tag)
                waiting.discard(record.name)

    async def _save(self, client: ExecutorClient, name: str) -> CheckpointTag:
        if not client.is_alive():
            raise ExecutorGone(f"executor {client.name} is down")
        root = self._checkpoints.root(name)
        async with self._access.lock(name):
            record = await self._access.record(name)
            tag = _free_tag(record, await asyncio.to_thread(list_tags, root))
            await tell(
                client,
                calls.SaveCheckpoint(module=name, root=str(root), epoch=tag.epoch, batch=tag.batch),
            )
            await in_thread(self._checkpoints.saved, name, tag)
        return tag


def _free_tag(record: ModuleRecord, taken: Collection[CheckpointTag]) -> CheckpointTag:
    """Return the first free tag after a module's checkpoint, in the same epoch."""
    last = record.checkpoint or CheckpointTag(0)
    batch = last.batch + 1
    while (last.epoch, batch) in taken:
        batch += 1
    return CheckpointTag(last.epoch, batch)


def _not_saved(module: str, reason: str) -> None:
    _log.error("module %s: its parameters are not saved at the stop: %s", module, reason)
