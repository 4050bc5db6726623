"""Datasets on disk, which are authoritative: the database follows them.

    <data>/datasets/<dataset>.json                the record
    <data>/datasets/<dataset>-<digest>.<kind>     the file

The record is written after the file and before the database row, and is put back if the database
refuses. While a file is being added or removed it also has a hidden name. If recovery finds such a
name after a crash, it knows that the file is ours and that nobody is waiting for it.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from app.domain.dataset import DatasetRecord
from app.domain.names import check_name
from app.errors.tree import Damaged, Invalid, NotFound
from app.files.durable_files import (
    hidden_sibling,
    list_hidden,
    locked,
    make_directory,
    remove_unlocked,
    rename_durably,
    replaced,
    sync_directory,
    write_durably,
)
from app.files.json_records import encode_record, read_record

__all__ = ["DatasetDirectory"]

_SUFFIX = ".json"
_LONGEST_SECONDS = 30.0  # as long as SQLite waits for another writer
_ASIDE = ".json.damaged-"


class DatasetDirectory:
    """The files of all datasets. Changes require the lock."""

    def __init__(self, data_dir: Path) -> None:
        """Prepare; the directory is created with the first dataset."""
        self.root = data_dir / "datasets"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock for a block; raise Unavailable if it cannot be had in time."""
        make_directory(self.root, parents=True)
        with locked(self.root, seconds=_LONGEST_SECONDS):
            yield

    def file(self, record: DatasetRecord) -> Path:
        """Return the path of a dataset's file: here, or the operator's own."""
        return self.root / record.file_name if record.path is None else Path(record.path)

    def names(self) -> list[str]:
        """Return the names of all datasets that have a record."""
        found = []
        for path in sorted(self.root.glob(f"*{_SUFFIX}")) if self.root.is_dir() else ():
            try:
                found.append(check_name(path.name.removesuffix(_SUFFIX)))
            except Invalid:
                continue
        return found

    def read(self, name: str) -> DatasetRecord:
        """Return the dataset that a record describes.

        Raises:
            NotFound: there is no record.
            Damaged: the record was altered, or is another dataset's.
        """
        record = read_record(DatasetRecord, self._record(name))
        if record.name != name:
            raise Damaged(f"{name}{_SUFFIX}", f"dataset {record.name!r}", f"dataset {name!r}")
        return record

    def unnamed_files(self) -> list[Path]:
        """Return the files that no record names, except hidden ones and those set aside."""
        if not self.root.is_dir():
            return []
        named = {self._record(name).name for name in self.names()} | self._named()
        shown = (path for path in sorted(self.root.iterdir()) if not path.name.startswith("."))
        return [path for path in shown if path.name not in named and _ASIDE not in path.name]

    # -- changes ------------------------------------------------------------------------------

    @contextmanager
    def placed(
        self, record: DatasetRecord, upload: Path | None, before: DatasetRecord | None
    ) -> Iterator[None]:
        """Put a file and its record in place; undo both if the block raises.

        Args:
            record: the dataset.
            upload: the file, under a hidden name that the caller removes; None for an operator's
                file.
            before: the dataset of the same name that this one replaces.
        """
        link = None
        try:
            if upload is not None:
                self.put_in_place(record, upload)
            # Until the end, so that recovery knows a file that no record names any more for ours.
            if before is not None:
                link = self._second_name(before, "replaced")
            with replaced(self._record(record.name), _content(record)):
                yield
        except BaseException:
            self._remove_own_file(record)
            _remove(link)
            raise
        if before is not None:
            self._remove_own_file(before)
        _remove(link)

    def put_in_place(self, record: DatasetRecord, upload: Path) -> None:
        """Make an upload the file of a dataset, replacing any other."""
        target = self.file(record)
        incoming = hidden_sibling(target, "incoming")
        try:
            os.link(upload, incoming)
            os.replace(incoming, target)
            sync_directory(self.root)
        finally:
            incoming.unlink(missing_ok=True)

    def write(self, record: DatasetRecord) -> None:
        """Write a dataset's record, replacing any other."""
        write_durably(self._record(record.name), _content(record))

    @contextmanager
    def deleted(self, record: DatasetRecord) -> Iterator[None]:
        """Remove a dataset's record and file; restore both if the block raises."""
        path = self._record(record.name)
        hidden = hidden_sibling(path, "deleting")
        link = self._second_name(record, "deleting")
        try:
            rename_durably(path, hidden)
            yield
        except BaseException:
            if hidden.exists():
                rename_durably(hidden, path)
            raise
        else:
            self._remove_own_file(record)
            hidden.unlink()
        finally:
            _remove(link)

    # -- after a death ------------------------------------------------------------------------

    def clean(self, is_known: Callable[[str], bool]) -> None:
        """Finish what crashed servers left behind: deletions, replacements and uploads.

        Args:
            is_known: whether the database has a dataset of this name; if so, its deletion was never
                confirmed to the client and is undone.
        """
        if not self.root.is_dir():
            return
        # Records that are put back first: below, files that no record names are removed.
        for hidden in list_hidden(self.root):
            name = hidden.target.removesuffix(_SUFFIX)
            is_record = hidden.purpose == "deleting" and hidden.target.endswith(_SUFFIX)
            if is_record and is_known(name) and not self._record(name).exists():
                rename_durably(hidden.path, self._record(name))
        for hidden in list_hidden(self.root):
            twin = self._twin(hidden.path)
            if remove_unlocked(hidden.path) and twin is not None:
                twin.unlink(missing_ok=True)

    def set_aside(self, name: str) -> Path:
        """Rename a damaged record, so that nothing is lost; return its new path."""
        path = self._record(name)
        number = 1
        while (aside := path.with_name(f"{name}{_ASIDE}{number}")).exists():
            number += 1
        rename_durably(path, aside)
        return aside

    # -- helpers ------------------------------------------------------------------------------

    def _record(self, name: str) -> Path:
        return self.root / f"{check_name(name)}{_SUFFIX}"

    def _remove_own_file(self, record: DatasetRecord) -> None:
        if record.path is None:
            self.file(record).unlink(missing_ok=True)

    def _second_name(self, record: DatasetRecord, purpose: str) -> Path | None:
        if record.path is not None:
            return None
        path = self.file(record)
        hidden = hidden_sibling(path, purpose)
        try:
            os.link(path, hidden)
        except FileNotFoundError:
            return None
        return hidden

    def _named(self) -> set[str]:
        """Return the names of files that a record, or perhaps an unreadable one, refers to."""
        found: set[str] = set()
        for name in self.names():
            try:
                found.add(self.read(name).file_name)
            except (Damaged, NotFound):
                found.update(path.name for path in self.root.glob(f"{name}-*"))
        return found

    def _twin(self, hidden: Path) -> Path | None:
        """Return the visible name of a hidden file, if no dataset refers to it."""
        if not hidden.is_file():
            return None
        shown = (path for path in self.root.iterdir() if not path.name.startswith("."))
        twins = [path for path in shown if path.samefile(hidden)]
        return twins[0] if twins and twins[0].name not in self._named() else None


def _remove(path: Path | None) -> None:
    if path is not None:
        path.unlink(missing_ok=True)


def _content(record: DatasetRecord) -> bytes:
    return encode_record(dataclasses.replace(record, id=0))
