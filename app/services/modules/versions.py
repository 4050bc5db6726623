"""Versions of modules: chooses the one that answers a prediction, loads it on demand, and changes
what is promoted, labelled or served as a canary."""

from __future__ import annotations

import asyncio
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple

import structlog

from app.domain.module import ModuleRecord, require
from app.domain.sequence import SequencePart
from app.domain.versions import LATEST, LIVE, Canary, Chosen, VersionSpec, check_label
from app.errors.tree import Damaged, HostError, Invalid, NotFound, ServiceError
from app.errors.versions import VersionDamaged
from app.link import calls
from app.link.client import Asked
from app.services.modules.checkpoints import CheckpointService
from app.services.modules.module_access import ModuleAccess
from app.services.modules.version_files import VersionFiles, VersionPlace
from app.services.predictions.instances import Instances

__all__ = ["LIVE_VERSION", "Version", "Versions"]

_log = structlog.get_logger(__name__)

_MOST_LOADS = 3
"""Attempts per load: the version's files may be moved or replaced before they are read."""
_FAULT_SECONDS = 1.0
"""Pause before a failed load is retried, because a load reads all files of the version."""
_MOST_KNOWN = 4096
_MOST_SEQUENCES = 1 << 16
_MOVED = frozenset({"not_found", "version_replaced"})
"""Codes of errors that mean that the files were moved or replaced before they were read."""


class Version(NamedTuple):
    """The parameters that answer a prediction.

    Attributes:
        name: for clients: ``live`` or the number.
        key: for executors; None for the live parameters.
    """

    name: str
    key: str | None


LIVE_VERSION = Version(LIVE, None)


class _Known(NamedTuple):
    place: VersionPlace
    edition: int


class _Fault(NamedTuple):
    error: ServiceError
    until: float


class Versions:
    """Chooses versions, loads them where they are needed, and changes their roles."""

    def __init__(
        self,
        access: ModuleAccess,
        checkpoints: CheckpointService,
        files: VersionFiles,
        instances: Instances,
    ) -> None:
        self._access = access
        self._checkpoints = checkpoints
        self._files = files
        self._instances = instances
        self._places: dict[tuple[str, int], _Known] = {}
        self._latest: dict[str, tuple[int | None, int]] = {}
        self._loads: dict[tuple[str, str], asyncio.Task[Version]] = {}
        self._faults: dict[tuple[str, str], _Fault] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._sequences: OrderedDict[tuple[str, str], str] = OrderedDict()

    @property
    def files(self) -> VersionFiles:
        """The versions' files."""
        return self._files

    # -- choosing -----------------------------------------------------------------------------

    def _choose_now(
        self, record: ModuleRecord, name: str | None, part: SequencePart | None, draw: float
    ) -> Version | None:
        """Return the version that answers a prediction; None if files must be read to find it."""
        chosen = record.versions.choose(self._name_of(record, name, part), draw)
        version = LIVE_VERSION if chosen == LIVE else self._known(record, chosen)
        if version is not None:
            self._note_begun(record, part, version)
        return version

    def _name_of(
        self, record: ModuleRecord, name: str | None, part: SequencePart | None
    ) -> str | None:
        if name is not None or part is None or part.is_start:
            return name
        return self._sequences.get((record.name, part.sequence_id))

    def _note_begun(
        self, record: ModuleRecord, part: SequencePart | None, version: Version
    ) -> None:
        """Route parts that arrive before the first one is answered to the same version.

        A sequence that has begun already keeps its version, because its new start may be refused.
        """
        key = (record.name, part.sequence_id) if part is not None and part.is_start else None
        if key is not None and key not in self._sequences:
            self._note_sequence(key, version)

    def note_part(self, record: ModuleRecord, part: SequencePart, version: Version) -> None:
        """Record which version answered a part; its sequence keeps that until its last part."""
        key = record.name, part.sequence_id
        self._sequences.pop(key, None)
        if not part.is_end:
            self._note_sequence(key, version)

    def _note_sequence(self, key: tuple[str, str], version: Version) -> None:
        self._sequences[key] = version.name
        if len(self._sequences) > _MOST_SEQUENCES:
            self._sequences.popitem(last=False)

    async def choose(
        self, record: ModuleRecord, name: str | None, part: SequencePart | None = None
    ) -> Version:
        """Return the version that answers a prediction.

        Args:
            record: the module.
            name: the version's name or label in the request; None if it has none.
            part: of a sequence, which keeps the version of its first part.

        Raises:
            NotFound: there is no such version.
            VersionDamaged: its files cannot be read.
        """
        return await self._choose(record, name, part, random.random())

    async def _choose(
        self, record: ModuleRecord, name: str | None, part: SequencePart | None, draw: float
    ) -> Version:
        # With the same draw: another one would favour versions whose files are known.
        version = self._choose_now(record, name, part, draw)
        if version is None:
            chosen = record.versions.choose(self._name_of(record, name, part), draw)
            version = LIVE_VERSION if chosen == LIVE else await self._find(record, chosen)
            self._note_begun(record, part, version)
        return version

    def when_chosen(
        self,
        record: ModuleRecord,
        name: str | None,
        ask: Callable[[Version], Asked],
        refuse: Callable[[Exception], None],
        part: SequencePart | None = None,
    ) -> Asked | None:
        """Choose a version and send it a prediction, in a task if files must be read to choose.

        Args:
            ask: sends the prediction to a version.
            refuse: called with errors after this method has returned.
            part: see ``choose``.

        Raises:
            Exception: choosing or sending failed before this method returned.
        """
        draw = random.random()
        version = self._choose_now(record, name, part, draw)
        if version is not None:
            return ask(version)
        choose = partial(self._choose, record, name, part, draw)
        later = _Later(self._choose_and_ask(choose, ask, refuse))
        self._tasks.add(later.task)
        later.task.add_done_callback(self._tasks.discard)
        return later

    async def _choose_and_ask(
        self,
        choose: Callable[[], Coroutine[Any, Any, Version]],
        ask: Callable[[Version], Asked],
        refuse: Callable[[Exception], None],
    ) -> Asked | None:
        try:
            return ask(await choose())
        except Exception as error:
            refuse(error)
            return None

    def _known(self, record: ModuleRecord, chosen: Chosen) -> Version | None:
        edition = self._checkpoints.edition(record.name)
        if chosen == LATEST:
            latest = self._latest.get(record.name)
            if latest is None or latest[1] != edition:
                return None
            chosen = _existing(record, latest[0])
        assert isinstance(chosen, int)
        known = self._places.get((record.name, chosen))
        if known is None or known.edition != edition:
            return None
        return Version(str(chosen), known.place.key)

    async def _find(self, record: ModuleRecord, chosen: Chosen) -> Version:
        # Taken before the files are read, so that a change during the read outdates what is kept.
        edition = self._checkpoints.edition(record.name)
        if chosen == LATEST:
            latest = await asyncio.to_thread(self._checkpoints.latest_version, record.name)
            self._latest[record.name] = latest, edition
            chosen = _existing(record, latest)
        assert isinstance(chosen, int)
        place = await asyncio.to_thread(self._files.find, record, chosen)
        if len(self._places) >= _MOST_KNOWN:
            self._places.clear()
        self._places[record.name, chosen] = _Known(place, edition)
        return Version(str(chosen), place.key)

    # -- on the device ------------------------------------------------------------------------

    async def load(self, record: ModuleRecord, version: Version, *, warm: bool = False) -> Version:
        """Load a version on its module's device; concurrent requests share one load.

        Args:
            warm: also bind and run once what its predictions run in.

        Returns:
            The version, with a new key if its checkpoint was replaced.

        Raises:
            VersionDamaged, NotFound: its files cannot be read.
            HostError: there is currently not enough memory, or it does not fit the module.
        """
        key = record.name, version.name
        fault = self._faults.get(key)
        if fault is not None and time.monotonic() < fault.until:
            raise fault.error
        if warm:
            return await self._load(record, version, warm=True)
        task = self._loads.get(key)
        if task is None:
            task = asyncio.create_task(self._load(record, version), name=f"load {key}")
            self._loads[key] = task
            task.add_done_callback(lambda done: self._forget(key, done))
        # The caller may be cancelled while others still wait for the load.
        return await asyncio.shield(task)

    def _forget(self, key: tuple[str, str], task: asyncio.Task[Version]) -> None:
        if self._loads.get(key) is task:
            del self._loads[key]
        if not task.cancelled():
            task.exception()  # was raised for the waiters, if there were any left

    async def _load(self, record: ModuleRecord, version: Version, warm: bool = False) -> Version:
        number = int(version.name)
        try:
            place = await self._load_files(record, number, warm)
        except (Damaged, NotFound, VersionDamaged) as error:
            self._note_fault((record.name, version.name), error)
            raise
        self._instances.note_loaded(record.name, place.key)
        if place.key != version.key:
            self._checkpoints.touch(record.name)
        return Version(version.name, place.key)

    async def _load_files(self, record: ModuleRecord, number: int, warm: bool) -> VersionPlace:
        for attempt in range(_MOST_LOADS):
            place = await asyncio.to_thread(self._files.find, record, number)
            call = calls.LoadVersion(
                module=record.name, version=place.key, directory=str(place.directory), warm=warm
            )
            try:
                (await self._access.ask(record, call)).release()
                break
            except HostError as error:
                if error.code == "damaged":
                    raise VersionDamaged(record.name, number, error.message) from error
                if error.code not in _MOVED or attempt == _MOST_LOADS - 1:
                    raise
        return place

    def _note_fault(self, key: tuple[str, str], error: ServiceError) -> None:
        _log.error("version not loaded", module=key[0], version=key[1], reason=str(error))
        if len(self._faults) >= _MOST_KNOWN:
            self._faults.clear()
        self._faults[key] = _Fault(error, time.monotonic() + _FAULT_SECONDS)

    async def close(self) -> None:
        """Cancel loads and predictions in progress."""
        tasks = [*self._tasks, *self._loads.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- changes ------------------------------------------------------------------------------

    async def promote(self, module: str, name: str) -> ModuleRecord:
        """Make a version answer predictions that name none, once it is loaded and warm."""
        return await self._change(module, name, lambda spec, version: spec.promote(version))

    async def roll_back(self, module: str) -> ModuleRecord:
        """Promote the previously promoted version again."""
        async with self._access.lock(module):
            record = await self._access.record(module)
            return await self._switch(record, record.versions.roll_back())

    async def label(self, module: str, label: str, name: str) -> ModuleRecord:
        """Set a label on a version."""
        check_label(label)

        def change(spec: VersionSpec, version: int | None) -> VersionSpec:
            return spec.with_label(label, _numbered(version, "version"))

        return await self._change(module, name, change)

    async def remove_label(self, module: str, label: str) -> ModuleRecord:
        """Remove a label."""
        async with self._access.lock(module):
            record = await self._access.record(module)
            return await self._switch(record, record.versions.without_label(label))

    async def try_out(self, module: str, name: str, weight: float) -> ModuleRecord:
        """Make a version the canary, which answers a share of the predictions that name none."""

        def change(spec: VersionSpec, version: int | None) -> VersionSpec:
            number = _numbered(version, "version")
            return spec.with_canary(Canary(version=number, weight=weight))

        return await self._change(module, name, change)

    async def end_trial(self, module: str) -> ModuleRecord:
        """Remove the canary, if there is one."""
        async with self._access.lock(module):
            record = await self._access.record(module)
            return await self._switch(record, record.versions.with_canary(None))

    async def _change(
        self, module: str, name: str, change: Callable[[VersionSpec, int | None], VersionSpec]
    ) -> ModuleRecord:
        async with self._access.lock(module):
            record = await self._access.record(module)
            chosen = record.versions.choose(name, 1.0)
            if chosen == LATEST:
                latest = await asyncio.to_thread(self._checkpoints.latest_version, module)
                chosen = _existing(record, latest)
            version = None if chosen == LIVE else chosen
            assert not isinstance(version, str)
            return await self._switch(record, change(record.versions, version))

    async def _switch(self, record: ModuleRecord, versions: VersionSpec) -> ModuleRecord:
        """Make a change, after versions that take over have been linked, loaded and warmed up.

        If the server dies at any point, the record is the old or the new one, and the files for it
        are there.
        """
        before = record.versions
        if versions.promoted is None and before.promoted is not None:
            require(record, "predict")
        for number in sorted(versions.in_use() - before.in_use()):
            await asyncio.to_thread(self._files.keep, record, number)
        after = record.evolve(versions=versions)
        for number in versions.answering() - before.answering():
            await self.load(after, Version(str(number), None), warm=True)
        await self._instances.prepare(after)
        changed = await self._access.note(
            record.name, lambda present: present.evolve(versions=versions)
        )
        # Links of what is no longer kept go last. If the server dies before, the next change
        # removes them.
        await asyncio.to_thread(self._files.sweep, changed)
        self._checkpoints.touch(record.name)
        return changed


class _Later(Asked):
    """A prediction whose version is still being chosen."""

    def __init__(self, work: Coroutine[Any, Any, Asked | None]) -> None:
        self._asked: Asked | None = None
        self.task = asyncio.ensure_future(self._run(work))

    async def _run(self, work: Coroutine[Any, Any, Asked | None]) -> None:
        self._asked = await work

    def withdraw(self) -> None:
        """Cancel it."""
        self.task.cancel()
        if self._asked is not None:
            self._asked.withdraw()


def _existing(record: ModuleRecord, latest: int | None) -> int:
    if latest is None:
        path = f"POST /v1/modules/{record.name}/checkpoints"
        raise NotFound("version", LATEST, f"the module has no checkpoint yet; save one by {path}")
    return latest


def _numbered(version: int | None, field: str) -> int:
    if version is None:
        raise Invalid(field, LIVE, "the number of a checkpoint's epoch, latest or a label")
    return version
