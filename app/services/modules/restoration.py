"""Restores modules on their devices, each when it is first called.

The start of each restore is recorded durably. A restore in which the process dies twice is not
retried automatically, so that one module cannot keep the others on its device from being served.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from weakref import WeakValueDictionary

import structlog

from app.domain.checkpoint import CheckpointTag
from app.domain.instances import module_of
from app.domain.module import InitSpec, ModuleRecord, ParamsSource
from app.domain.restoration import MOST_DEATHS, RestoreStatus
from app.errors.http import error_code
from app.errors.tree import ExecutorGone, HostError, ModuleFailed, ServiceError, Unavailable
from app.files.checkpoint_files import list_tags
from app.link import calls
from app.link.client import ExecutorClient
from app.link.supervisor import Supervisor
from app.link.work_page import RunningWork
from app.services.modules.checkpoints import CheckpointService
from app.services.modules.modules import ModuleService
from app.services.modules.restore_log import RestoreLog
from app.services.operations.background_tasks import in_thread
from app.services.operations.executors import Executors, tell

__all__ = ["TRANSIENT", "Restoration", "init_call"]

_log = structlog.get_logger(__name__)

TRANSIENT = frozenset(
    {"cancelled", "in_use", "not_resident", "out_of_memory", "storage_full", "unavailable"}
    | {"too_large"}  # for the memory that is free now
)
"""Codes of temporary refusals, against which an older checkpoint would not help."""

_CRASHES_SECONDS = 60.0
"""Crashes in calls on a module count together if they are no further apart than this."""

_OVERRUNS_SECONDS = 3600.0
"""The same for calls that took too long, of which each may take minutes."""


def init_call(
    checkpoints: CheckpointService, record: ModuleRecord, spec: InitSpec
) -> calls.InitParams:
    """Return the call that initializes a module, except parameters that it keeps from another."""
    base = checkpoints.base(record)
    return calls.InitParams(module=record.name, spec=spec, base=None if base is None else str(base))


@dataclass(frozen=True, slots=True)
class _Restored:
    """The older checkpoint that a module was restored from, and why; empty for its newest."""

    tag: CheckpointTag | None = None
    warning: str | None = None


class Restoration:
    """Restores modules; concurrent requests for the same module share one restore."""

    def __init__(
        self,
        log: RestoreLog,
        modules: ModuleService,
        checkpoints: CheckpointService,
        executors: Executors,
    ) -> None:
        self._history = log
        self._modules = modules
        self._checkpoints = checkpoints
        self._executors = executors
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._remarkable: set[str] = set()
        self._crashes: dict[str, list[float]] = {}
        self._overruns: dict[str, list[float]] = {}

    async def executor_started(self, name: str) -> None:
        """Record what was lost with the previous process; must be called before any restore."""
        works = self._last_works(name)
        killers = None if works is None else {work.module for work in works}
        executor = self._executors.get(name)
        restarts = executor.restarts if isinstance(executor, Supervisor) else 0
        await asyncio.to_thread(self._history.executor_started, name, killers, restarts)
        if isinstance(executor, Supervisor) and executor.has_crashed:
            for work in works or ():
                await self._note_crash(work)
        if isinstance(executor, Supervisor) and executor.overrun is not None:
            for work in works or ():
                if work.method == executor.overrun:
                    await self._note_overrun(work)
        self._remarkable |= (await asyncio.to_thread(self._history.remarkable)).keys()

    def _last_works(self, name: str) -> tuple[RunningWork, ...] | None:
        """Return what an executor was running when it last died; None if that is unknown, as for a
        death under an earlier server."""
        executor = self._executors.get(name)
        if not isinstance(executor, Supervisor) or not executor.has_died:
            return None
        return executor.last_works

    async def _note_crash(self, work: RunningWork) -> None:
        """Stop restoring a module whose calls crash the process repeatedly.

        Deaths during restores are counted durably elsewhere, and jobs have limited attempts.
        """
        if work.method != "restore_module":
            did = "calls on it crashed the executor's process"
            await self._note_death(work, self._crashes, _CRASHES_SECONDS, did)

    async def _note_overrun(self, work: RunningWork) -> None:
        """Stop restoring a module whose calls repeatedly took longer than calls may."""
        did = "calls on it took longer than MODSERVE_MAX_CALL_SECONDS"
        await self._note_death(work, self._overruns, _OVERRUNS_SECONDS, did)

    async def _note_death(
        self, work: RunningWork, deaths: dict[str, list[float]], within: float, did: str
    ) -> None:
        if not work.module or work.job_id:
            return
        module, now = module_of(work.module), time.monotonic()
        recent = [one for one in deaths.get(module, ()) if now - one < within]
        deaths[module] = [*recent, now]
        if len(recent) + 1 >= MOST_DEATHS:
            fault = f"{did} {len(recent) + 1} times within {within:.0f} s, the last: {work.method}"
            _log.error("module left alone", module=module, reason=fault)
            status = RestoreStatus(fault=fault)
            await in_thread(self._history.end, module, lambda _: status)

    async def restore(self, name: str) -> None:
        """Restore a module, if it is not on its device.

        Raises:
            NotFound: there is no such module.
            ModuleFailed: it cannot be restored before an operator repairs it.
            ExecutorGone: the executor is down, or died of it.
            HostError: there is currently not enough memory.
        """
        task = self._under_way.get(name)
        if task is None:
            task = asyncio.create_task(self._restore(name), name=f"restore {name}")
            self._under_way[name] = task
            task.add_done_callback(self._forget)
        # The caller may be cancelled while others still wait for the restore.
        await asyncio.shield(task)

    async def retry(self, name: str) -> None:
        """Restore a module even if it failed before; see ``restore``.

        A module that is on its device is left as it is.
        """
        if await self._is_resident(name):
            return
        self._crashes.pop(name, None)
        self._overruns.pop(name, None)
        await asyncio.to_thread(self._history.forget, name)
        await self.restore(name)

    @asynccontextmanager
    async def given_params(self, name: str) -> AsyncIterator[None]:
        """Have a module on its device while the block sets parameters, even if the module failed.

        A failed module is restored without its parameters, and evicted again if the block fails. It
        stays failed until its record says that it has new ones.
        """
        try:
            await self.restore(name)
        except ModuleFailed:
            async with self._without_params(name):
                yield
        else:
            yield

    def note_eviction(self, name: str) -> None:
        """Record that a module was evicted from its device. Blocks."""
        self._history.evicted(name)

    @asynccontextmanager
    async def kept_off(self, name: str) -> AsyncIterator[None]:
        """Prevent restores of a module within the block, after waiting for a running one to end."""
        async with self._lock(name):
            yield

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())

    async def warning(self, name: str) -> str | None:
        """Return a warning about a module's last restore, for the logs of its jobs, if any."""
        if name not in self._remarkable:
            return None
        status = (await asyncio.to_thread(self._history.remarkable)).get(name)
        if status is None:
            self._remarkable.discard(name)
        return None if status is None else status.warning

    async def resident(self, client: ExecutorClient) -> frozenset[str]:
        """Return the names of the modules that are on an executor."""
        method, params = calls.to_call(calls.ResidentModules())
        reply = await client.call(method, params)
        reply.release()
        return frozenset(reply.result["names"])

    async def _is_resident(self, name: str) -> bool:
        record = await asyncio.to_thread(self._modules.get, name)
        client = self._executors.get(record.executor)
        return client.is_alive() and name in await self.resident(client)

    async def stop(self) -> None:
        """Cancel restores in progress; that does not count against their modules."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._under_way = {name: one for name, one in self._under_way.items() if one is not task}
        if not task.cancelled():
            task.exception()  # was raised for the waiters, if there were any left

    # -- one restore --------------------------------------------------------------------------

    async def _restore(self, name: str) -> None:
        record = await asyncio.to_thread(self._modules.get, name)
        client = self._executors.get(record.executor)
        # One restore at a time on a device, so that a death can be blamed on a single module.
        turn = self._turns.setdefault(client.name, asyncio.Lock())
        async with self._lock(name), turn:
            if not client.is_alive():
                raise ExecutorGone(f"executor {client.name} is down; try again in a moment")
            begun = await self._begin(client, name)
            if begun is None:
                return
            record = begun
            try:
                restored = await self._bring_back(client, record)
            except ExecutorGone:
                _log.error("the executor died in the restore of a module", module=name)
                raise  # still marked as in progress, so that the restart counts the death
            except ModuleFailed as error:
                fault = error.reason
                _log.error("module not restored", module=name, reason=fault)
                await in_thread(self._history.end, name, lambda _: RestoreStatus(fault=fault))
                raise
            except BaseException:
                await in_thread(self._history.end, name, _given_up)
                raise
            if restored.warning is not None:
                _log.warning("module restored from an older checkpoint", module=name)
                self._remarkable.add(name)
            status = RestoreStatus(restored_from=restored.tag, warning=restored.warning)
            await in_thread(self._history.end, name, lambda _: status, is_restored=True)

    async def _begin(self, client: ExecutorClient, name: str) -> ModuleRecord | None:
        """Record that a restore begins; return None if the module is on its device.

        Recording it declares parameters that are not durable lost. So the record must not have
        changed since the device was asked: a call or a job may have put the module there meanwhile.
        """
        begun = None
        while begun is None:
            record = await asyncio.to_thread(self._modules.get, name)
            if name in await self.resident(client):
                return None
            try:
                begun = await in_thread(self._history.begin, record)
            except asyncio.CancelledError:
                await in_thread(self._history.end, name, _given_up)  # it may have been recorded
                raise
        return begun

    @asynccontextmanager
    async def _without_params(self, name: str) -> AsyncIterator[None]:
        """Have a failed module on its device, without parameters, within the block."""
        known = await asyncio.to_thread(self._modules.get, name)
        client = self._executors.get(known.executor)
        async with self._lock(name), self._turns.setdefault(client.name, asyncio.Lock()):
            try:
                record = await in_thread(self._history.begin, known, is_failed=True)
                if record is None:
                    raise Unavailable(f"module {name!r} was changed meanwhile; try again")
                await tell(client, calls.RestoreModule(record=record.evolve(lost=True)))
            except ExecutorGone:
                raise  # still marked as in progress, so that the restart counts the death
            except BaseException:
                await in_thread(self._history.end, name, _given_up)
                raise
            await in_thread(self._history.end, name, _given_up)
        try:
            yield
        except BaseException:
            await self._take_off(client, name)
            raise

    async def _take_off(self, client: ExecutorClient, name: str) -> None:
        try:
            await tell(client, calls.DeleteModule(module=name))
        except (HostError, ExecutorGone) as error:
            _log.info("a failed module was not on its device", module=name, reason=str(error))

    async def _bring_back(self, client: ExecutorClient, record: ModuleRecord) -> _Restored:
        if record.lost or record.params is not ParamsSource.CHECKPOINT:
            base = self._checkpoints.base(record)
            call = calls.RestoreModule(record=record, base=None if base is None else str(base))
            try:
                await tell(client, call)
            except (HostError, ServiceError) as error:
                if error_code(error) in TRANSIENT:
                    raise
                raise ModuleFailed(record.name, error.message) from error
            return _Restored()
        assert record.checkpoint is not None
        faults: list[str] = []
        for tag in await asyncio.to_thread(self._candidates, record):
            try:
                directory = await asyncio.to_thread(self._checkpoints.verify, record.name, tag)
                call = calls.RestoreModule(record=record, checkpoint=str(directory))
                await tell(client, call)
            except (HostError, ServiceError) as error:
                if error_code(error) in TRANSIENT:
                    raise
                faults.append(f"checkpoint {tag} cannot be used ({error.message})")
                continue
            if tag == record.checkpoint:
                return _Restored()
            return _Restored(tag, f"{'; '.join(faults)}; restored from checkpoint {tag}")
        told = f"{'; '.join(faults)}; no checkpoint before it is left: upload the same files again"
        raise ModuleFailed(record.name, told)

    def _candidates(self, record: ModuleRecord) -> Sequence[CheckpointTag]:
        """Return the module's checkpoint, then older ones, newest first."""
        assert record.checkpoint is not None
        newest = record.checkpoint
        tags = list_tags(self._checkpoints.root(record.name))
        return [newest, *sorted((tag for tag in tags if tag < newest), reverse=True)]


def _given_up(status: RestoreStatus) -> RestoreStatus:
    return dataclasses.replace(status, is_under_way=False)
