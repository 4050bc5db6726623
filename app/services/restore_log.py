"""What is durably noted of restores: each before it begins, so that a death in it is known."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Sequence

from sqlalchemy import Connection

from app.domain.events import Happening, ServerEvent
from app.domain.module import ModuleRecord
from app.domain.restoration import RestoreStatus
from app.errors import ModuleFailed, NotFound
from app.services.bell import Bell
from app.services.jobs import Clock
from app.store.events import EventEntry, append_events, of_executor, of_module
from app.store.modules import get_module, module_id, module_outline, save_module
from app.store.restorations import (
    Losses,
    get_restorations,
    note_losses,
    put_restoration,
    remarkable_restorations,
)
from app.store.store import Store

__all__ = ["RestoreLog"]


class RestoreLog:
    """How the restores of modules went. Its methods block."""

    def __init__(self, store: Store, clock: Clock = time.time, bell: Bell | None = None) -> None:
        """Prepare.

        Args:
            bell: rung when something happened to a module or an executor.
        """
        self._store = store
        self._clock = clock
        self._bell = bell or Bell()

    def executor_started(
        self, executor: str, killers: Collection[str] | None = None, restarts: int = 0
    ) -> None:
        """Note that an executor has a new process, and what was lost with the one before.

        Args:
            executor: its name.
            killers: see ``app.store.restorations.note_losses``.
            restarts: how often this server started it again.
        """
        kind = ServerEvent.EXECUTOR_RESTARTED if restarts else ServerEvent.EXECUTOR_STARTED
        started = of_executor(executor, Happening(kind, {"restarts": restarts}))
        with self._store.write() as connection:
            losses = note_losses(connection, executor, killers)
            append_events(connection, [started, *_told(connection, losses)], self._clock())
        self._bell.ring()

    def executor_lost(self, executor: str, reason: str) -> None:
        """Note that the process of an executor died, or was ended."""
        lost = of_executor(executor, Happening(ServerEvent.EXECUTOR_LOST, {"reason": reason}))
        with self._store.write() as connection:
            append_events(connection, [lost], self._clock())
        self._bell.ring()

    def evicted(self, name: str) -> None:
        """Note that a module was put away from its device; nothing where it was deleted."""
        self._tell(name, Happening(ServerEvent.MODULE_EVICTED, {}))

    def _tell(self, name: str, happening: Happening) -> None:
        with self._store.write() as connection:
            try:
                record = module_outline(connection, name)
            except NotFound:
                return
            append_events(connection, of_module(record, happening), self._clock())
        self._bell.ring()

    def statuses(self, records: Sequence[ModuleRecord]) -> list[RestoreStatus]:
        """Return how the newest restores of modules went."""
        with self._store.read() as connection:
            found = get_restorations(connection, [record.id for record in records])
        return [found[record.id] for record in records]

    def remarkable(self) -> dict[str, RestoreStatus]:
        """Return by name those modules that failed, or came back from an older checkpoint."""
        with self._store.read() as connection:
            return remarkable_restorations(connection)

    def begin(self, known: ModuleRecord, *, is_failed: bool = False) -> ModuleRecord | None:
        """Note that a restore begins; return the module's record with its new generation.

        What is not durable was on the device alone, and the module is not there any more: however
        that came about, its parameters are lost.

        Args:
            known: the record as it was when the module was not on its device.
            is_failed: it is known to have failed, and is to be given other parameters.

        Returns:
            The record; None, and nothing is noted, where it is another one since.

        Raises:
            NotFound: there is no such module.
            ModuleFailed: somebody must mend it first.
        """
        name = known.name
        with self._store.write() as connection:
            identity = module_id(connection, name, lock=True)
            record = get_module(connection, name)
            if record.etag != known.etag:
                return None
            status = get_restorations(connection, [identity])[identity]
            if status.failure is not None and not is_failed:
                raise ModuleFailed(name, status.failure)
            begun = dataclasses.replace(status, is_under_way=True)
            put_restoration(connection, identity, begun)
            # In the database alone: a generation is not part of what a module's file must say.
            following = record.evolve(
                generation=record.generation + 1,
                lost=record.lost or not record.durable,  # it was nowhere else
                version=record.version + 1,
                updated_at=self._clock(),
            )
            saved = save_module(connection, following, record.version)
            if saved.lost and not record.lost:
                lost = of_module(saved, Happening(ServerEvent.MODULE_PARAMS_LOST, {}))
                append_events(connection, lost, self._clock())
        self._bell.ring()
        return saved

    def end(
        self,
        name: str,
        ended: Callable[[RestoreStatus], RestoreStatus],
        *,
        is_restored: bool = False,
    ) -> None:
        """Note how a restore ended; nothing where the module was deleted meanwhile.

        Args:
            ended: returns the status afterwards.
            is_restored: the module is on its device.
        """
        with self._store.write() as connection:
            try:
                record = module_outline(connection, name, lock=True)
            except NotFound:
                return
            before = get_restorations(connection, [record.id])[record.id]
            status = ended(before)
            put_restoration(connection, record.id, status)
            happened = []
            if is_restored:
                happened.append(_restored(record, status))
            elif status.failure is not None and before.failure is None:
                happened.append(_quarantined(status))
            append_events(connection, of_module(record, *happened), self._clock())
        self._bell.ring()

    def forget(self, name: str) -> None:
        """Forget why a module failed, so that it is tried again; raise NotFound."""
        with self._store.write() as connection:
            put_restoration(connection, module_id(connection, name, lock=True), RestoreStatus())


def _told(connection: Connection, losses: Losses) -> list[EventEntry]:
    """Return what is told of the modules of an executor that died."""
    lost = [module_outline(connection, name) for name in losses.lost]
    failed = [module_outline(connection, name) for name in losses.failed]
    statuses = get_restorations(connection, [record.id for record in failed])
    told = [(record, Happening(ServerEvent.MODULE_PARAMS_LOST, {})) for record in lost]
    told += [(record, _quarantined(statuses[record.id])) for record in failed]
    return [entry for record, happening in told for entry in of_module(record, happening)]


def _quarantined(status: RestoreStatus) -> Happening:
    return Happening(ServerEvent.MODULE_QUARANTINED, {"reason": status.failure})


def _restored(record: ModuleRecord, status: RestoreStatus) -> Happening:
    """Return what tells of a restore: from where, and what is wrong with a newer checkpoint."""
    tag = status.restored_from or record.checkpoint
    facts = {
        "checkpoint": None if tag is None else str(tag),
        "generation": record.generation,
        "warning": status.warning,
    }
    return Happening(ServerEvent.MODULE_RESTORED, facts)
