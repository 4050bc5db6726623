"""What is durably noted of restores: each before it begins, so that a death in it is known."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Sequence

from app.domain.module import ModuleRecord
from app.domain.restoration import RestoreStatus
from app.errors import ModuleFailed, NotFound
from app.services.jobs import Clock
from app.store.modules import get_module, module_id, save_module
from app.store.restorations import (
    get_restorations,
    note_losses,
    put_restoration,
    remarkable_restorations,
)
from app.store.store import Store

__all__ = ["RestoreLog"]


class RestoreLog:
    """How the restores of modules went. Its methods block."""

    def __init__(self, store: Store, clock: Clock = time.time) -> None:
        self._store = store
        self._clock = clock

    def executor_started(self, executor: str, killers: Collection[str] | None = None) -> None:
        """Note that an executor has a new process, and what was lost with the one before.

        Args:
            executor: its name.
            killers: see ``app.store.restorations.note_losses``.
        """
        with self._store.write() as connection:
            note_losses(connection, executor, killers)

    def statuses(self, records: Sequence[ModuleRecord]) -> list[RestoreStatus]:
        """Return how the newest restores of modules went."""
        with self._store.read() as connection:
            found = get_restorations(connection, [record.id for record in records])
        return [found[record.id] for record in records]

    def remarkable(self) -> dict[str, RestoreStatus]:
        """Return by name those modules that failed, or came back from an older checkpoint."""
        with self._store.read() as connection:
            return remarkable_restorations(connection)

    def begin(self, name: str) -> ModuleRecord:
        """Note that a restore begins; return the module's record with its new generation.

        What is not durable was on the device alone, and the module is not there any more: however
        that came about, its parameters are lost.

        Raises:
            NotFound: there is no such module.
            ModuleFailed: somebody must mend it first.
        """
        with self._store.write() as connection:
            identity = module_id(connection, name, lock=True)
            status = get_restorations(connection, [identity])[identity]
            if status.failure is not None:
                raise ModuleFailed(name, status.failure)
            begun = dataclasses.replace(status, is_under_way=True)
            put_restoration(connection, identity, begun)
            record = get_module(connection, name)
            # In the database alone: a generation is no part of what a module's file must say.
            following = record.evolve(
                generation=record.generation + 1,
                lost=record.lost or not record.durable,  # it was nowhere else
                version=record.version + 1,
                updated_at=self._clock(),
            )
            return save_module(connection, following, record.version)

    def end(self, name: str, ended: Callable[[RestoreStatus], RestoreStatus]) -> None:
        """Note how a restore ended; nothing where the module was deleted meanwhile."""
        with self._store.write() as connection:
            try:
                identity = module_id(connection, name, lock=True)
            except NotFound:
                return
            status = get_restorations(connection, [identity])[identity]
            put_restoration(connection, identity, ended(status))

    def forget(self, name: str) -> None:
        """Forget why a module failed, so that it is tried again; raise NotFound."""
        with self._store.write() as connection:
            put_restoration(connection, module_id(connection, name, lock=True), RestoreStatus())
