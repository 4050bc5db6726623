"""Durable record of restores. Each is recorded before it begins, so that a death in it is known."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Sequence

from sqlalchemy import Connection

from app.domain.events import Happening, ServerEvent
from app.domain.module import ModuleRecord
from app.domain.restoration import RestoreStatus
from app.errors.tree import ModuleFailed, NotFound
from app.services.operations.notifier import Notifier
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
    """Records restores of modules and losses of executors. Its methods block."""

    def __init__(
        self, store: Store, clock: Callable[[], float] = time.time, notifier: Notifier | None = None
    ) -> None:
        """Prepare.

        Args:
            notifier: notified after events of modules and executors.
        """
        self._store = store
        self._clock = clock
        self._notifier = notifier or Notifier()

    def executor_started(
        self, executor: str, killers: Collection[str] | None = None, restarts: int = 0
    ) -> None:
        """Record that an executor has a new process, and what was lost with the previous one.

        Args:
            executor: its name.
            killers: see ``app.store.restorations.note_losses``.
            restarts: how often this server has restarted it.
        """
        kind = ServerEvent.EXECUTOR_RESTARTED if restarts else ServerEvent.EXECUTOR_STARTED
        started = of_executor(executor, Happening(kind, {"restarts": restarts}))
        with self._store.write() as connection:
            losses = note_losses(connection, executor, killers)
            append_events(connection, [started, *_events_of(connection, losses)], self._clock())
        self._notifier.notify()

    def executor_lost(self, executor: str, reason: str) -> None:
        """Record that an executor's process died or was killed."""
        lost = of_executor(executor, Happening(ServerEvent.EXECUTOR_LOST, {"reason": reason}))
        with self._store.write() as connection:
            append_events(connection, [lost], self._clock())
        self._notifier.notify()

    def evicted(self, name: str) -> None:
        """Record that a module was evicted from its device; a deleted module is ignored."""
        self._tell(name, Happening(ServerEvent.MODULE_EVICTED, {}))

    def _tell(self, name: str, happening: Happening) -> None:
        with self._store.write() as connection:
            try:
                record = module_outline(connection, name)
            except NotFound:
                return
            append_events(connection, of_module(record, happening), self._clock())
        self._notifier.notify()

    def statuses(self, records: Sequence[ModuleRecord]) -> list[RestoreStatus]:
        """Return the outcome of each module's last restore."""
        with self._store.read() as connection:
            found = get_restorations(connection, [record.id for record in records])
        return [found[record.id] for record in records]

    def remarkable(self) -> dict[str, RestoreStatus]:
        """Return, by name, modules that failed or were restored from an older checkpoint."""
        with self._store.read() as connection:
            return remarkable_restorations(connection)

    def begin(self, known: ModuleRecord, *, is_failed: bool = False) -> ModuleRecord | None:
        """Record that a restore begins; return the module's record with its new generation.

        Parameters that are not durable existed only on the device. As the module is no longer
        there, for whatever reason, they are recorded as lost.

        Args:
            known: the record when the module was found not to be on its device.
            is_failed: the module is known to have failed, and is to be given new parameters.

        Returns:
            The record; None, with nothing recorded, if it has changed since ``known``.

        Raises:
            NotFound: there is no such module.
            ModuleFailed: the module must be repaired first.
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
            # Only in the database: the module's file need not have the current generation.
            following = record.evolve(
                generation=record.generation + 1,
                lost=record.lost or not record.durable,  # it was only on the device
                version=record.version + 1,
                updated_at=self._clock(),
            )
            saved = save_module(connection, following, record.version)
            if saved.lost and not record.lost:
                lost = of_module(saved, Happening(ServerEvent.MODULE_PARAMS_LOST, {}))
                append_events(connection, lost, self._clock())
        self._notifier.notify()
        return saved

    def end(
        self,
        name: str,
        ended: Callable[[RestoreStatus], RestoreStatus],
        *,
        is_restored: bool = False,
    ) -> None:
        """Record how a restore ended; ignored if the module was deleted meanwhile.

        Args:
            ended: returns the new status.
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
        self._notifier.notify()

    def forget(self, name: str) -> None:
        """Clear a module's failure, so that it is retried; raise NotFound."""
        with self._store.write() as connection:
            put_restoration(connection, module_id(connection, name, lock=True), RestoreStatus())


def _events_of(connection: Connection, losses: Losses) -> list[EventEntry]:
    """Return the events of the modules that an executor's death has affected."""
    lost = [module_outline(connection, name) for name in losses.lost]
    failed = [module_outline(connection, name) for name in losses.failed]
    statuses = get_restorations(connection, [record.id for record in failed])
    happened = [(record, Happening(ServerEvent.MODULE_PARAMS_LOST, {})) for record in lost]
    happened += [(record, _quarantined(statuses[record.id])) for record in failed]
    return [entry for record, happening in happened for entry in of_module(record, happening)]


def _quarantined(status: RestoreStatus) -> Happening:
    return Happening(ServerEvent.MODULE_QUARANTINED, {"reason": status.failure})


def _restored(record: ModuleRecord, status: RestoreStatus) -> Happening:
    """Return the event of a restore: its checkpoint, and what is wrong with newer ones."""
    tag = status.restored_from or record.checkpoint
    facts = {
        "checkpoint": None if tag is None else str(tag),
        "generation": record.generation,
        "warning": status.warning,
    }
    return Happening(ServerEvent.MODULE_RESTORED, facts)
