"""Modules brought back from what is durable, when their executor has a new process."""

from __future__ import annotations

import asyncio

import structlog

from app.domain.module import InitSpec, ModuleRecord, ParamsSource
from app.errors import HostError, ServiceError
from app.link import calls
from app.link.client import ExecutorClient
from app.services.checkpoints import CheckpointService
from app.services.executors import tell
from app.services.modules import ModuleService

__all__ = ["Restoration", "init_call"]

_log = structlog.get_logger(__name__)


def init_call(
    checkpoints: CheckpointService, record: ModuleRecord, spec: InitSpec
) -> calls.InitParams:
    """Return the call that initializes a module, but for what it keeps of another one."""
    base = checkpoints.base(record)
    return calls.InitParams(module=record.name, spec=spec, base=None if base is None else str(base))


class Restoration:
    """Makes an executor hold its modules again."""

    def __init__(self, modules: ModuleService, checkpoints: CheckpointService) -> None:
        self._modules = modules
        self._checkpoints = checkpoints

    async def restore(self, client: ExecutorClient) -> None:
        """Bring the modules of an executor back from what is durable, when it has started."""
        for record in await asyncio.to_thread(self._modules.lost, client.name):
            try:
                await self._restore_one(client, record)
            except (ServiceError, HostError) as error:
                _log.error("module not restored", module=record.name, error=str(error))

    async def _restore_one(self, client: ExecutorClient, record: ModuleRecord) -> None:
        name = record.name
        await tell(client, calls.CreateModule(record=record))
        if record.bind is not None:
            await tell(client, calls.Bind(module=name, spec=record.bind))
        if record.params is ParamsSource.CHECKPOINT and record.checkpoint is not None:
            directory = await asyncio.to_thread(self._checkpoints.verify, name, record.checkpoint)
            # Whatever is not the module's was passed over when this was first loaded.
            load = calls.LoadCheckpoint(module=name, directory=str(directory), allow_extra=True)
            await tell(client, load)
        elif record.params is ParamsSource.INIT and record.init is not None and record.bind:
            await tell(client, init_call(self._checkpoints, record, record.init))
        if record.optimizer is not None and record.bind and record.params is not None:
            await tell(client, calls.InitOptimizer(module=name, spec=record.optimizer))
            await self._restore_states(client, record)

    async def _restore_states(self, client: ExecutorClient, record: ModuleRecord) -> None:
        if record.params is not ParamsSource.CHECKPOINT or record.checkpoint is None:
            return
        directory = self._checkpoints.directory(record.name, record.checkpoint)
        if any(directory.glob("*.states")):
            call = calls.LoadCheckpoint(
                module=record.name,
                directory=str(directory),
                optimizer_states=True,
                allow_extra=True,
            )
            await tell(client, call)
