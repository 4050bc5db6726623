"""Modules on several executors: chooses the instance for a prediction, and keeps versions loaded.

Replicas serve only versions, because the parameters in training exist only at the module's home. A
prediction goes to an instance that is known to have its version. Replicas load missing versions in
the background, and no prediction waits for that. If an instance turns out to have lost a version,
the prediction goes to another one.
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
from app.errors.tree import (
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
from app.services.modules.module_access import ModuleAccess
from app.services.modules.restore_log import RestoreLog
from app.services.modules.version_files import VersionFiles
from app.services.operations.background_tasks import cancel_tasks
from app.services.operations.executors import Executors, tell

__all__ = ["Instance", "InstanceFacts", "InstanceState", "Instances"]

_log = structlog.get_logger(__name__)

_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0
"""Between two attempts to load a version on an instance."""
_PAUSE_AFTER_DEATHS_SECONDS = 600.0  # after MOST_DEATHS in a row; each costs all its modules
_PREPARE_SECONDS = 30.0  # instances that are not prepared by then get no predictions yet
_PUT_AWAY = frozenset({"not_resident", "version_not_loaded"})
_NO_ROOM = "it was evicted: other modules needed the memory of its executor"
_NO_VERSION = (
    "it answers predictions of versions; those that name none are answered at home, by the "
    "parameters in training, until a version is promoted"
)


class InstanceState(StrEnum):
    """Whether an instance can answer."""

    READY = "ready"
    LOADING = "loading"
    IDLE = "idle"
    """It has no version to serve yet."""
    FAILED = "failed"
    """A version could not be loaded, and will be retried."""
    DOWN = "down"
    """Its executor is down."""
    MISSING = "missing"
    """The server has no executor for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFacts:
    """The status of an instance.

    Attributes:
        executor: None for one that is missing.
        is_home: it has the parameters in training.
        reason: why it is not ready, if the state alone does not tell.
        rows: examples waiting or being computed on its executor, of all modules.
    """

    executor: str | None
    is_home: bool
    state: InstanceState
    reason: str | None = None
    rows: int = 0


@dataclass(frozen=True, slots=True)
class _Fault:
    """Why an instance does not have a version, and when the load is retried.

    Attributes:
        pause: seconds between the last attempt and the next.
        until: the earliest time of the next, on the monotonic clock.
    """

    reason: str
    pause: float
    until: float


@dataclass(slots=True, eq=False)
class Instance:
    """A module on one of its executors.

    Attributes:
        client: the executor.
        module: the module's name on the executor.
        public_name: the name by which clients know the module.
        versions: keys of the versions that it is known to have.
        loads: those in progress, by version number.
        faults: why the last loads failed, by version number.
        deaths: consecutive deaths of the executor during loads.
        targets: cache of ``target``.
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
        """The name of its executor."""
        return self.client.name

    def target(self, target: Target) -> Target:
        """Translate a prediction's target from the module to this instance."""
        if self.is_home:
            return target
        found = self.targets.get(target)
        if found is None:
            params = {**target.params, "module": self.module}
            found = Target(params, target.inputs, target.rows, target.is_shared)
            self.targets[target] = found
        return found

    def told(self, error: Exception) -> Exception:
        """Return an error of its executor, with the name by which clients know the module."""
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
        """Return whether they serve the module as this record describes it."""
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
        """Return the instance that has a version and the fewest examples to compute.

        That is the home if none has it, and None for a module with a single instance. Instances
        that lack the version begin to load it.

        Args:
            record: the module.
            version: number of the version.
            key: key of the version.
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
        """Return the instances of a module, its home first; none if there is only the home."""
        group = self._groups.get(record.name)
        return () if group is None or not group.is_of(record) else group.instances

    async def give(self, instance: Instance, record: ModuleRecord, version: str, key: str) -> None:
        """Load a version on an instance now, and wait for it.

        Raises:
            ExecutorGone, Unavailable: it cannot currently be loaded there.
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
        """Count the examples of a prediction that an executor is asked for."""
        self._rows[executor] = self._rows.get(executor, 0) + rows

    def end(self, executor: str, rows: int) -> None:
        """Uncount the examples of a prediction, however it ended."""
        self._rows[executor] -= rows

    def note_lost(self, instance: Instance, version: str, key: str, error: Exception) -> bool:
        """Handle the error of an instance that ``choose`` returned.

        Returns:
            whether another instance may be tried: this one does not have the version, or its
            executor is down but was not killed by this prediction.
        """
        if isinstance(error, HostError) and error.code in _PUT_AWAY:
            if error.code == "not_resident":
                instance.versions.clear()
            instance.versions.discard(key)
            if not instance.is_home:  # else each prediction would reload it, and evict others
                until = time.monotonic() + _FIRST_PAUSE_SECONDS
                instance.faults[int(version)] = _Fault(_NO_ROOM, _FIRST_PAUSE_SECONDS, until)
            return True
        if isinstance(error, ExecutorGone):
            instance.versions.clear()
            return not isinstance(error, ExecutorKilled)
        return False

    # -- readiness ----------------------------------------------------------------------------

    async def prepare(self, record: ModuleRecord) -> None:
        """Load the versions that serve predictions on all instances, before a record takes effect.

        An instance that is down or takes too long does not hold this up: it gets no predictions
        until it has the versions.
        """
        group = self._groups.get(record.name)
        if group is None or not group.is_of(record):
            return
        loads = list(self._want_answering(group, record))
        if loads:
            await asyncio.wait(loads, timeout=_PREPARE_SECONDS)

    def executor_started(self, name: str) -> None:
        """Load versions again on an executor that has a new process."""
        loop = asyncio.get_running_loop()
        for group in self._groups.values():
            for one in group.instances:
                if one.executor == name:
                    one.versions.clear()
        loop.call_soon(self._refill, name)  # later: the executor is not marked as ready yet

    def note_loaded(self, module: str, key: str) -> None:
        """Record that a module's home has loaded a version."""
        group = self._groups.get(module)
        if group is not None:
            group.instances[0].versions.add(key)

    def facts(self, record: ModuleRecord) -> list[InstanceFacts]:
        """Return the status of each instance, including missing ones."""
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
        """Return the status of the home of a module without replicas."""
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
        """Cancel loads and removals in progress."""
        tasks = [
            task
            for group in self._groups.values()
            for one in group.instances
            for task in one.loads.values()
        ]
        await cancel_tasks([*tasks, *self._tasks])

    # -- internals ----------------------------------------------------------------------------

    def _follow(self, name: str, record: ModuleRecord | None) -> None:
        """Add and remove instances as a module's new record says; None if it was deleted."""
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
                one.faults.clear()  # the change may have fixed their cause
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
        """Begin to load a version on an instance, unless the executor is down or a failed load is
        not to be retried yet; return the load in progress, if any."""
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
            # One load at a time on a device, so that it is clear which one killed the executor.
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
        """Postpone the next attempt to load a version, with exponential backoff."""
        where = {"module": one.public_name, "executor": one.executor}
        _log.warning("an instance was not given a version", **where, version=number, reason=reason)
        before = one.faults.get(number)
        pause = _FIRST_PAUSE_SECONDS if before is None else 2 * before.pause
        pause = min(pause, _LONGEST_PAUSE_SECONDS)
        if is_deadly:
            pause = _PAUSE_AFTER_DEATHS_SECONDS
        one.faults[number] = _Fault(reason, pause, time.monotonic() + pause)

    async def _give(self, one: Instance, record: ModuleRecord, number: int) -> str:
        """Load a version and warm it up, so that the first prediction is fast; return its key."""
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
