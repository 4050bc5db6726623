"""Brings the database's rows of datasets up to date with the files on disk when a server starts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from app.domain.dataset import DatasetKind, DatasetRecord
from app.errors.database import RowDamaged
from app.errors.tree import Damaged, NotFound, ServiceError
from app.files.dataset_directory import DatasetDirectory
from app.files.dataset_formats import describe_file
from app.files.durable_files import digest_file
from app.services.operations.recovery_report import Finding, Outcome
from app.store.datasets import all_datasets, put_dataset
from app.store.store import Store

__all__ = ["DatasetRecovery"]

_FILE = re.compile(r"(.+)-([0-9a-f]{16})\.([a-z]+)", re.DOTALL)
"""A dataset's file: its name, the first digits of its SHA-256, and its kind."""
_OUTPUT = re.compile(r"\.output-(\d+)-(\d+)")

IsRunning = Callable[[int, int], bool]


class DatasetRecovery:
    """Reconciles the database with the dataset files."""

    def __init__(self, store: Store, directory: DatasetDirectory, max_bytes: int) -> None:
        """Prepare.

        Args:
            max_bytes: limit on the uncompressed size of a dataset that is rebuilt from its file.
        """
        self._store = store
        self._directory = directory
        self._max_bytes = max_bytes

    def run(self, is_running: IsRunning, *, rebuild: bool) -> list[Finding]:
        """Finish or undo interrupted changes, then compare all datasets.

        Args:
            is_running: tells whether an attempt of a job may still be writing its output.
            rebuild: create datasets from files that no record names.
        """
        if not self._directory.root.is_dir() and not self._rows():
            return []
        findings: list[Finding] = []
        with self._directory.locked():
            rows = self._rows()
            self._directory.clean(rows.__contains__)
            self._remove_outputs(is_running)
            for name in sorted({*self._directory.names(), *rows}):
                findings += self._compare(name, rows.get(name))
            for path in self._directory.unnamed_files():
                findings.append(self._import_file(path, rebuild))
        return findings

    def look(self) -> list[Finding]:
        """Return what ``run`` would act on, without changing anything."""
        if not self._directory.root.is_dir():
            return self._differences()
        with self._directory.locked():  # a server writes a record first, then its row
            return self._differences()

    def _differences(self) -> list[Finding]:
        rows = self._rows()
        findings = []
        for name in sorted({*self._directory.names(), *rows}):
            row = rows.get(name)
            if isinstance(row, RowDamaged):
                findings.append(_finding(name, Outcome.DAMAGED, row.reason))
                continue
            try:
                record = self._directory.read(name)
            except (Damaged, NotFound) as error:
                findings.append(_finding(name, Outcome.DAMAGED, str(error)))
                continue
            if row is None or not _agree(record, row):
                detail = "the database does not know it, or knows an older state of it"
                findings.append(_finding(name, Outcome.LEFT, detail))
            findings += self._check_file(record)
        for path in self._directory.unnamed_files():
            findings.append(_finding(path.name, Outcome.LEFT, "no record names it"))
        return findings

    def _compare(self, name: str, row: DatasetRecord | RowDamaged | None) -> list[Finding]:
        if isinstance(row, RowDamaged):
            return self._mend_row(name, row)
        try:
            record = self._directory.read(name)
        except NotFound:
            assert row is not None
            self._directory.write(row)
            return [_finding(name, Outcome.WRITTEN), *self._check_file(row)]
        except Damaged as error:
            return [self._mend_record(name, row, error)]
        findings = self._check_file(record)
        if row is None or not _agree(record, row):
            with self._store.write() as connection:
                put_dataset(connection, record)
            findings.append(_finding(name, Outcome.IMPORTED if row is None else Outcome.UPDATED))
        return findings

    def _mend_row(self, name: str, damage: RowDamaged) -> list[Finding]:
        try:
            record = self._directory.read(name)
        except (Damaged, NotFound) as error:
            return [_finding(name, Outcome.LEFT, f"{damage.reason}, and {error}")]
        with self._store.write() as connection:
            put_dataset(connection, record)
        detail = f"{damage.reason}, and written anew from its record"
        return [_finding(name, Outcome.DAMAGED, detail), *self._check_file(record)]

    def _mend_record(self, name: str, row: DatasetRecord | None, error: Damaged) -> Finding:
        if row is None:
            return _finding(name, Outcome.LEFT, str(error))
        aside = self._directory.set_aside(name)
        self._directory.write(row)
        detail = f"{error}; it is now {aside.name}, and written anew from the database"
        return _finding(name, Outcome.DAMAGED, detail)

    def _check_file(self, record: DatasetRecord) -> list[Finding]:
        """Compare a file's size with its record; hashing all files would take too long."""
        path = self._directory.file(record)
        try:
            size = path.stat().st_size
        except OSError:
            return [_finding(record.name, Outcome.DAMAGED, f"its file {path.name} is missing")]
        if size == record.size:
            return []
        detail = f"its file {path.name} has {size:,} bytes, expected {record.size:,}"
        return [_finding(record.name, Outcome.DAMAGED, detail)]

    def _import_file(self, path: Path, rebuild: bool) -> Finding:
        found = _FILE.fullmatch(path.name)
        if not rebuild or found is None or found[3] not in list(DatasetKind):
            return _finding(path.name, Outcome.LEFT, "no record names it")
        name, kind = found[1], DatasetKind(found[3])
        if name in self._directory.names():
            return _finding(path.name, Outcome.LEFT, f"dataset {name} has another file")
        digest = digest_file(path)
        if not digest.sha256.startswith(found[2]):
            return _finding(path.name, Outcome.LEFT, f"its SHA-256 begins {digest.sha256[:16]}")
        try:
            record = describe_file(
                *(name, path, kind, digest),
                limit=self._max_bytes,
                created_at=path.stat().st_mtime,
            )
        except ServiceError as error:
            return _finding(path.name, Outcome.LEFT, str(error))
        self._directory.write(record)
        with self._store.write() as connection:
            put_dataset(connection, record)
        return _finding(name, Outcome.IMPORTED)

    def _remove_outputs(self, is_running: IsRunning) -> None:
        for path in self._directory.root.iterdir():
            if (found := _OUTPUT.fullmatch(path.name)) and not is_running(
                int(found[1]), int(found[2])
            ):
                path.unlink(missing_ok=True)

    def _rows(self) -> dict[str, DatasetRecord | RowDamaged]:
        with self._store.read() as connection:
            return all_datasets(connection)


def _agree(file: DatasetRecord, row: DatasetRecord) -> bool:
    return replace(file, id=0) == replace(row, id=0)


def _finding(name: str, outcome: Outcome, detail: str = "") -> Finding:
    return Finding(kind="dataset", name=name, outcome=outcome, detail=detail)
