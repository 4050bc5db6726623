"""Recovery of modules at startup: the files are authoritative, and the database follows them.

A server may have died after writing a file and before the database; the file is newer then, and
wins. A module of an older modserve has no file yet; it is written from the database.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeAlias

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from app.domain.module import ModuleRecord
from app.errors.database import RowDamaged
from app.errors.tree import Damaged, IdempotencyMismatch, NotFound
from app.files.durable_files import list_hidden
from app.files.module_directories import MODULE_FILE, ModuleDirectories
from app.files.module_rebuilding import rebuild_module
from app.services.operations.recovery_report import Finding, Outcome
from app.store.idempotency import recall, remember
from app.store.modules import all_modules, get_module, put_module
from app.store.store import Store

__all__ = ["MODULE_SCOPE", "ModuleRecovery"]

MODULE_SCOPE = "modules"
"""Scope of the idempotency keys."""

_MOST_LOSSES = 1_000_000
"""Added to the generation of a module that the database has lost: more than the executor can have
died since the file was written, because a generation that a client has seen must not recur."""


@dataclass(frozen=True, slots=True)
class _OnDisk:
    record: ModuleRecord | None = None
    damage: Damaged | None = None


InDatabase: TypeAlias = ModuleRecord | RowDamaged | None


class ModuleRecovery:
    """Reconciles the database with the module files."""

    def __init__(self, store: Store, directories: ModuleDirectories, executor: str) -> None:
        """Prepare.

        Args:
            executor: for modules that are rebuilt from a checkpoint.
        """
        self._store = store
        self._directories = directories
        self._executor = executor

    def run(self, *, rebuild: bool) -> list[Finding]:
        """Finish interrupted operations, then reconcile all modules.

        Args:
            rebuild: create modules from checkpoints without a readable record.
        """
        for hidden in self._directories.hidden():
            with self._directories.locked(hidden.target):
                if hidden.path.exists():
                    self._directories.finish(hidden, self._row(hidden.target) is not None)
        with self._store.read() as connection:
            rows = all_modules(connection)
        names = sorted({*self._directories.names(), *rows})
        findings = (self._compare(name, rows.get(name), rebuild) for name in names)
        return [finding for finding in findings if finding is not None]

    def look(self) -> list[Finding]:
        """Return what ``run`` would have to reconcile, and change nothing."""
        with self._store.read() as connection:
            rows = all_modules(connection)
        names = sorted({*self._directories.names(), *rows})
        findings = (self._look_at(name, rows.get(name)) for name in names)
        return [finding for finding in findings if finding is not None]

    def _look_at(self, name: str, row: InDatabase) -> Finding | None:
        if self._difference(name, self._read(name), row) is None:
            return None
        # Again, under the lock: a server writes the file first, then the row.
        with self._directories.locked(name):
            return self._difference(name, self._read(name), self._row(name))

    def _difference(self, name: str, file: _OnDisk, row: InDatabase) -> Finding | None:
        if isinstance(row, RowDamaged):
            return _finding(name, Outcome.DAMAGED, row.reason)
        if file.damage is not None:
            return _finding(name, Outcome.DAMAGED, str(file.damage))
        if file.record is None:
            if row is None and not self._directories.path(name).is_dir():
                return None  # deleted meanwhile
            return _finding(name, Outcome.LEFT, f"there is no {MODULE_FILE}")
        if row is None or not _agree(file.record, row):
            detail = "the database does not know it, or knows an older state of it"
            return _finding(name, Outcome.LEFT, detail)
        return None

    def _compare(self, name: str, row: InDatabase, rebuild: bool) -> Finding | None:
        file = self._read(name)
        is_same = file.record is not None and self._difference(name, file, row) is None
        if is_same and not list_hidden(self._directories.path(name)):
            return None
        with self._directories.locked(name):
            row, file = self._row(name), self._read(name)  # again, under the lock
            if self._directories.path(name).is_dir():
                self._directories.clean(name)
            if file.record is not None:
                return self._take_in(file.record, row)
            if isinstance(row, ModuleRecord):
                return self._write_file(row, file)
            return self._rebuild(name, file, row, rebuild)

    def _take_in(self, file: ModuleRecord, present: InDatabase) -> Finding | None:
        row = present if isinstance(present, ModuleRecord) else None
        if row is not None and _agree(file, row):
            return None
        if row is None:
            file = file.evolve(generation=file.generation + _MOST_LOSSES)
        else:
            version = file.version if file.version > row.version else row.version + 1
            generation = max(file.generation, row.generation)
            lost = file.lost or (row.lost and file.version <= row.version)
            file = file.evolve(generation=generation, version=version, lost=lost)
        try:
            with self._directories.replaced(file), self._store.write() as connection:
                put_module(connection, file)
                if row is None:
                    self._remember_request(connection, file.name)
        except IntegrityError as error:
            return _finding(file.name, Outcome.LEFT, f"its record contradicts itself: {error.orig}")
        if isinstance(present, RowDamaged):
            detail = f"{present.reason}, and written anew from its {MODULE_FILE}"
            return _finding(file.name, Outcome.DAMAGED, detail)
        return _finding(file.name, Outcome.IMPORTED if row is None else Outcome.UPDATED)

    def _remember_request(self, connection: Connection, name: str) -> None:
        request = self._directories.read_request(name)
        if request is None:
            return
        try:
            if recall(connection, MODULE_SCOPE, request.key, request.fingerprint) is None:
                one = (MODULE_SCOPE, request.key, request.fingerprint, name)
                remember(connection, *one, time.time())
        except IdempotencyMismatch:
            pass  # the key was reused since

    def _write_file(self, row: ModuleRecord, file: _OnDisk) -> Finding | None:
        aside = None
        if file.damage is not None:
            aside = self._directories.set_aside(row.name)
        self._directories.write(row)
        if aside is None:
            return _finding(row.name, Outcome.WRITTEN)
        detail = f"{file.damage}; it is now {aside.name}, and written anew from the database"
        return _finding(row.name, Outcome.DAMAGED, detail)

    def _rebuild(
        self, name: str, file: _OnDisk, row: RowDamaged | None, rebuild: bool
    ) -> Finding | None:
        directory = self._directories.path(name)
        if not directory.is_dir() and row is None:
            return None  # deleted meanwhile
        what = str(file.damage or f"there is no {MODULE_FILE}")
        if row is not None:
            what = f"{row.reason}, and {what}"
        if not rebuild:
            hint = "'modserve recover' makes a module of its checkpoint, if there is one"
            return _finding(name, Outcome.LEFT, f"{what}; {hint}")
        try:
            record = rebuild_module(name, directory, self._executor)
        except (NotFound, Damaged) as error:
            return _finding(name, Outcome.LEFT, f"{what}; {error}")
        if file.damage is not None:
            self._directories.set_aside(name)
        with self._directories.replaced(record), self._store.write() as connection:
            put_module(connection, record)
        detail = f"{what}; made of checkpoint {record.checkpoint}, unbound: bind it"
        return _finding(name, Outcome.REBUILT, detail)

    def _row(self, name: str) -> InDatabase:
        try:
            with self._store.read() as connection:
                return get_module(connection, name)
        except NotFound:
            return None
        except RowDamaged as error:
            return error

    def _read(self, name: str) -> _OnDisk:
        try:
            return _OnDisk(self._directories.read(name))
        except NotFound:
            return _OnDisk()
        except Damaged as error:
            return _OnDisk(damage=error)


def _agree(file: ModuleRecord, row: ModuleRecord) -> bool:
    """Return whether file and row agree. ``lost`` counts only if the file is newer, because a crash
    of an executor is recorded in the database alone."""
    is_newer = file.version > row.version and file.lost != row.lost
    return _essence(file) == _essence(row) and not is_newer


_essence = attrgetter(
    *{field.name for field in dataclasses.fields(ModuleRecord)}
    - {"id", "version", "generation", "updated_at", "lost"}
)


def _finding(name: str, outcome: Outcome, detail: str = "") -> Finding:
    return Finding(kind="module", name=name, outcome=outcome, detail=detail)
