"""Modules on several executors: which instance answers a prediction, and what keeps them ready.

Only versions are answered by several: the parameters in training are at home alone. An instance is
asked for the versions that it is known to have; it is given them beside that, and nobody waits for
it. One that has lost what it was asked for says so, and another one is asked.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from weakref import WeakKeyDictionary

import structlog

from app.domain.instances import as_replica, replica_name, serving_executors
from app.domain.module import ModuleRecord
from app.domain.restoration import MOST_DEATHS
from app.errors import (
    ExecutorGone,
    ExecutorKilled,
    HostError,
    ModuleFailed,
    ServiceError,
    Unavailable,
)
from app.link import calls
from app.link.client import ExecutorClient
from app.link.signatures import Target
from app.services.background_tasks import cancel_tasks
from app.services.executors import Executors, tell
from app.services.module_access import ModuleAccess
from app.services.restore_log import RestoreLog
from app.services.version_files import VersionFiles

__all__ = ["Instance", "InstanceFacts", "InstanceState", "Instances"]

_log = structlog.get_logger(__name__)

_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0
"""Between two tries to give an instance a version."""
_PAUSE_AFTER_DEATHS_SECONDS = 600.0
_PREPARE_SECONDS = 30.0
_PUT_AWAY = frozenset({"not_resident", "version_not_loaded"})
_NO_ROOM = "it was put away, for others needed the memory of its executor"
_NO_VERSION = (
    "it answers predictions of versions; those that name none are answered at home, by the "
    "parameters in training, until a version is promoted"
)


class InstanceState(StrEnum):
    """Whether an instance can be asked."""

    READY = "ready"
    LOADING = "loading"
    IDLE = "idle"
    """No version is wanted of it yet."""
    FAILED = "failed"
    """A version could not be loaded; it is tried again."""
    DOWN = "down"
    """Its executor is."""
    MISSING = "missing"
    """The server has no executor for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFacts:
    """What is known of an instance.

    Attributes:
        executor: None for one that is missing.
        is_home: it has the parameters in training.
        reason: why it is not ready, where there is something to say of that.
        rows: examples that wait at its executor or are computed there, of all modules.
    """

    executor: str | None
    is_home: bool
    state: InstanceState
    reason: str | None = None
    rows: int = 0


@dataclass(frozen=True, slots=True)
class _Fault:
    """Why an instance does not have a version, and when it is tried again.

    Attributes:
        pause: seconds from one try to the next,
        until: and when these are over, on the monotonic clock.
    """

    reason: str
    pause: float
    until: float


@dataclass(slots=True, eq=False)
class Instance:
    """A module on one of its executors.

    Attributes:
        client: the executor.
        module: what the module is called there,
        public_name: and by clients.
        versions: keys of those that it is known to have.
        loads: under way, by the version's number.
        faults: of the last ones, by the version's number.
        deaths: of the executor in loads, in a row.
        targets: what to ask it, by what is asked of its module.
    """

    client: ExecutorClient
    module: str
    public_name: str
    is_home: bool
    versions: set[str] = field(default_factory=set)
    loads: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    faults: dict[int, _Fault] = field(default_factory=dict)
    deaths: int = 0
    targets: WeakKeyDictionary[Target, Target] = field(default_factory=WeakKeyDictionary)

    @property
    def executor(self) -> str:
        """Name of its executor."""
        return self.client.name

    def target(self, target: Target) -> Target:
        """Return what to ask it for what is asked of its module."""
        if self.is_home:
            return target
        found = self.targets.get(target)
        if found is None:
            params = {**target.params, "module": self.module}
            found = Target(params, target.inputs, target.rows, target.is_shared)
            self.targets[target] = found
        return found

    def told(self, error: Exception) -> Exception:
        """Return what it said, with the name that clients know the module by."""
        if self.is_home:
            return error
        if isinstance(error, HostError):
            text = error.message.replace(self.module, self.public_name)
            more = error.field_name, error.errors, error.extensions
            return HostError(error.code, text, *more)
        if isinstance(error, ExecutorGone):
            return type(error)(str(error).replace(self.module, self.public_name))
        return error


@dataclass(slots=True, eq=False)
class _Group:
    """The instances of one module, its home first."""

    record: ModuleRecord
    replica: str
    instances: tuple[Instance, ...]

    def is_of(self, record: ModuleRecord) -> bool:
        """Return whether they compute what a module is by a record."""
        mine = self.record
        if record is mine or (record.id, record.version) == (mine.id, mine.version):
            return True
        return replica_name(record) == self.replica


class Instances:
    """The instances of all modules that have more than one."""

    def __init__(
        self,
        access: ModuleAccess,
        files: VersionFiles,
        executors: Executors,
        restores: RestoreLog,
    ) -> None:
        self._access = access
        self._files = files
        self._executors = executors
        self._restores = restores
        self._groups: dict[str, _Group] = {}
        self._rows: dict[str, int] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        access.watch(self._follow)

    # -- asking -------------------------------------------------------------------------------

    def choose(self, record: ModuleRecord, version: str, key: str) -> Instance | None:
        """Return the instance with the fewest examples to compute, of those that have a version.

        Where none has it that is the home; None for a module that has one instance alone.

        Args:
            record: the module.
            version: number of the version,
            key: and its key.
        """
        group = self._groups.get(record.name)
        if group is None or not group.is_of(record):
            return None
        chosen, least = None, math.inf
        for one in group.instances:
            if not one.client.is_alive():
                continue
            if key not in one.versions:
                self._want(one, group.record, int(version))
                continue
            rows = self._rows.get(one.executor, 0)
            if rows < least:
                chosen, least = one, rows
        return chosen or group.instances[0]

    def of(self, record: ModuleRecord) -> tuple[Instance, ...]:
        """Return the instances of a module, its home first; none where it has its home alone."""
        group = self._groups.get(record.name)
        return () if group is None or not group.is_of(record) else group.instances

    async def give(self, instance: Instance, record: ModuleRecord, version: str, key: str) -> None:
        """Load a version at an instance now, and wait for it.

        Raises:
            ExecutorGone, Unavailable: it cannot be had there at present.
        """
        instance.faults.pop(int(version), None)
        task = self._want(instance, record, int(version))
        if task is None:
            raise ExecutorGone(f"executor {instance.executor} is down; try again in a moment")
        await asyncio.shield(task)
        if key not in instance.versions:
            fault = instance.faults.get(int(version))
            reason = "its executor died" if fault is None else fault.reason
            raise Unavailable(f"version {version} of module {instance.public_name!r}: {reason}")

    def begin(self, executor: str, rows: int) -> None:
        """Note examples that an executor is asked for."""
        self._rows[executor] = self._rows.get(executor, 0) + rows

    def end(self, executor: str, rows: int) -> None:
        """Note that they are computed, refused or given up."""
        self._rows[executor] -= rows

    def note_lost(self, instance: Instance, version: str, key: str, error: Exception) -> bool:
        """Note what an instance said when it was asked for a version; see ``choose``.

        Returns:
            whether another one may be asked: it did not have it, or its executor died of something
            else before it came to it.
        """
        if isinstance(error, HostError) and error.code in _PUT_AWAY:
            if error.code == "not_resident":
                instance.versions.clear()
            instance.versions.discard(key)
            if not instance.is_home:  # else it would come and go with every prediction
                until = time.monotonic() + _FIRST_PAUSE_SECONDS
                instance.faults[int(version)] = _Fault(_NO_ROOM, _FIRST_PAUSE_SECONDS, until)
            return True
        if isinstance(error, ExecutorGone):
            instance.versions.clear()
            return not isinstance(error, ExecutorKilled)
        return False

    # -- being ready --------------------------------------------------------------------------

    async def prepare(self, record: ModuleRecord) -> None:
        """Give the versions that answer by a record to all instances, before it is in force.

        One that is down, or takes too long, is left behind: it is not asked before it has them.
        """
        group = self._groups.get(record.name)
        if group is None or not group.is_of(record):
            return
        loads = list(self._want_answering(group, record))
        if loads:
            await asyncio.wait(loads, timeout=_PREPARE_SECONDS)

    def executor_started(self, name: str) -> None:
        """Note that an executor has a new process, and give it again what it had."""
        loop = asyncio.get_running_loop()
        for group in self._groups.values():
            for one in group.instances:
                if one.executor == name:
                    one.versions.clear()
        loop.call_soon(self._refill, name)  # who tells this has yet to say that it is ready

    def note_loaded(self, module: str, key: str) -> None:
        """Note that a module has a version at its home."""
        group = self._groups.get(module)
        if group is not None:
            group.instances[0].versions.add(key)

    def facts(self, record: ModuleRecord) -> list[InstanceFacts]:
        """Return what is known of each instance, those that are missing included."""
        group = self._groups.get(record.name)
        if group is not None and group.is_of(record):
            found = [self._facts(record, one) for one in group.instances]
        else:
            found = [self._alone(record)]
        names = self._executors.names
        if record.executor in names and record.bind is not None:
            missing = InstanceFacts(
                executor=None,
                is_home=False,
                state=InstanceState.MISSING,
                reason=f"the executors of this server are {', '.join(names)}; add devices to "
                "MODSERVE_DEVICES, or ask for fewer instances",
            )
            found += [missing] * (record.serving.instances - len(found))
        return found

    def _alone(self, record: ModuleRecord) -> InstanceFacts:
        """Return what is known of a module that has its home alone."""
        is_up = record.executor in self._executors.names and (
            self._executors.get(record.executor).is_alive()
        )
        return InstanceFacts(
            executor=record.executor,
            is_home=True,
            state=InstanceState.READY if is_up else InstanceState.DOWN,
            rows=self._rows.get(record.executor, 0),
        )

    def _facts(self, record: ModuleRecord, one: Instance) -> InstanceFacts:
        state, reason = InstanceState.READY, None
        faults = [
            f"version {number}: {fault.reason}"
            for number, fault in one.faults.items()
            if number in record.versions.answering()
        ]
        if not one.client.is_alive():
            state = InstanceState.DOWN
        elif faults:
            state, reason = InstanceState.FAILED, "; ".join(faults)
        elif one.loads:
            state = InstanceState.LOADING
        elif not one.is_home and not one.versions:
            state, reason = InstanceState.IDLE, None if record.versions.answering() else _NO_VERSION
        rows = self._rows.get(one.executor, 0)
        return InstanceFacts(
            executor=one.executor, is_home=one.is_home, state=state, reason=reason, rows=rows
        )

    async def close(self) -> None:
        """Give up what is under way."""
        tasks = [
            task
            for group in self._groups.values()
            for one in group.instances
            for task in one.loads.values()
        ]
        await cancel_tasks([*tasks, *self._tasks])

    # -- inside -------------------------------------------------------------------------------

    def _follow(self, name: str, record: ModuleRecord | None) -> None:
        """Have the instances that a module is to have by its record."""
        before = self._groups.pop(name, None)
        after = None if record is None else self._group(record, before)
        kept = () if after is None else after.instances
        for one in () if before is None else before.instances:
            if one not in kept and not one.is_home:
                self._spawn(self._remove(one))
        if after is not None:
            self._groups[name] = after
            for _ in self._want_answering(after, after.record):
                pass

    def _group(self, record: ModuleRecord, before: _Group | None) -> _Group | None:
        serving = record.serving
        if serving.instances == 1 or not serving.is_loaded or record.bind is None:
            return None
        names = serving_executors(record, self._executors.names)
        if len(names) < 2:
            return None
        replica = replica_name(record)
        kept = {}
        if before is not None and before.replica == replica:
            kept = {one.executor: one for one in before.instances}
            for one in before.instances:
                one.faults.clear()  # what was changed may have mended them
        return _Group(
            record,
            replica,
            tuple(
                kept.get(name)
                or Instance(
                    client=self._executors.get(name),
                    module=record.name if name == record.executor else replica,
                    public_name=record.public_name,
                    is_home=name == record.executor,
                )
                for name in names
            ),
        )

    def _refill(self, executor: str) -> None:
        for group in self._groups.values():
            for one in group.instances:
                if one.executor == executor:
                    for number in group.record.versions.answering():
                        self._want(one, group.record, number)

    def _want_answering(self, group: _Group, record: ModuleRecord) -> Iterator[asyncio.Task[None]]:
        for one in group.instances:
            for number in record.versions.answering():
                task = self._want(one, record, number)
                if task is not None:
                    yield task

    def _want(self, one: Instance, record: ModuleRecord, number: int) -> asyncio.Task[None] | None:
        """Give an instance a version, unless that is under way or failed a moment ago."""
        task = one.loads.get(number)
        if task is not None:
            return task
        fault = one.faults.get(number)
        is_early = fault is not None and time.monotonic() < fault.until
        if is_early or not one.client.is_alive():
            return None
        task = asyncio.create_task(self._load(one, record, number), name=f"load {one.module}")
        one.loads[number] = task
        task.add_done_callback(lambda _: one.loads.pop(number, None))
        return task

    async def _load(self, one: Instance, record: ModuleRecord, number: int) -> None:
        try:
            # One at a time on a device: it is the one under way that a death is blamed on.
            async with self._turns.setdefault(one.executor, asyncio.Lock()):
                key = await self._give(one, record, number)
        except ExecutorKilled as error:
            one.deaths += 1
            one.versions.clear()
            is_deadly = one.deaths >= MOST_DEATHS
            self._pause(one, number, f"its executor died of it: {one.told(error)}", is_deadly)
        except ExecutorGone:
            one.versions.clear()
        except (HostError, ServiceError) as error:
            self._pause(one, number, one.told(error).args[0])
        except Exception:
            _log.exception("an instance was not given a version", module=one.module)
            self._pause(one, number, "internal error; the log of the server says more")
        else:
            one.versions.add(key)
            one.faults.pop(number, None)
            one.deaths = 0

    def _pause(self, one: Instance, number: int, reason: str, is_deadly: bool = False) -> None:
        """Try it again later, each time after a longer pause."""
        where = {"module": one.public_name, "executor": one.executor}
        _log.warning("an instance was not given a version", **where, version=number, reason=reason)
        before = one.faults.get(number)
        pause = _FIRST_PAUSE_SECONDS if before is None else 2 * before.pause
        pause = min(pause, _LONGEST_PAUSE_SECONDS)
        if is_deadly:
            pause = _PAUSE_AFTER_DEATHS_SECONDS
        one.faults[number] = _Fault(reason, pause, time.monotonic() + pause)

    async def _give(self, one: Instance, record: ModuleRecord, number: int) -> str:
        """Load a version, and bind what its predictions run in; return its key."""
        place = await asyncio.to_thread(self._files.find, record, number)
        if place.key in one.versions:
            return place.key
        load = calls.LoadVersion(
            module=one.module, version=place.key, directory=str(place.directory), warm=True
        )
        if one.is_home:
            (await self._access.ask(record, load)).release()
            return place.key
        (status,) = await asyncio.to_thread(self._restores.statuses, [record])
        if status.failure is not None:
            raise ModuleFailed(record.name, status.failure)
        replica = as_replica(record, one.module, one.executor)
        await tell(one.client, calls.RestoreModule(record=replica))
        await tell(one.client, load)
        return place.key

    async def _remove(self, one: Instance) -> None:
        """Remove a replica from its executor."""
        await asyncio.gather(*one.loads.values(), return_exceptions=True)
        async with self._turns.setdefault(one.executor, asyncio.Lock()):
            try:
                await tell(one.client, calls.DeleteModule(module=one.module))
            except (HostError, ExecutorGone):
                _log.info("a replica was not on its executor", module=one.module)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
