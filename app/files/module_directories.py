"""Modules on the disk: the truth of which there are and of what each was told.

    <data>/modules/<module>/module.json       the record
    <data>/modules/<module>/request.json      the request that made it, if that had a key
    <data>/modules/<module>/checkpoints/...   see ``checkpoint_files``

A file is always at least as new as the database: it is written first, and put back if the database
refuses. A module is made under a hidden name and goes by way of one:

    .incoming-<module>-...   being made
    .deleting-<module>-...   deleted, and the database may not know it yet
    .trash-<module>-...      deleted
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.domain.module import ModuleRecord
from app.domain.names import check_name
from app.errors import AlreadyExists, Damaged, Invalid, NotFound
from app.files.durable_files import (
    Hidden,
    discard,
    hidden_sibling,
    list_hidden,
    make_directory,
    remove_tree,
    rename_durably,
    replaced,
    sync_directory,
    write_durably,
)
from app.files.json_records import encode_record, read_record
from app.files.name_locks import NameLocks

__all__ = ["MODULE_FILE", "CreationRequest", "ModuleDirectories"]

MODULE_FILE = "module.json"
_REQUEST_FILE = "request.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreationRequest:
    """The request that made a module, for one that repeats it: see ``app.store.idempotency``."""

    key: str
    fingerprint: str


class ModuleDirectories:
    """The modules' directories. Who changes one has its lock meanwhile."""

    def __init__(self, data_dir: Path) -> None:
        """Prepare; nothing is made before a module is."""
        self.root = data_dir / "modules"
        self._locks = NameLocks(data_dir / "locks" / "modules")

    def path(self, name: str) -> Path:
        """Return where a module's files lie; raise Invalid for what is not a name."""
        return self.root / check_name(name, "module")

    def locked(self, name: str) -> AbstractContextManager[None]:
        """Have a module's lock for a block."""
        return self._locks.locked(name)

    def names(self) -> list[str]:
        """Return the names of all modules' directories, of what is none of ours apart."""
        found = []
        for path in sorted(self.root.iterdir()) if self.root.is_dir() else ():
            try:
                found.append(check_name(path.name))
            except Invalid:
                continue
        return found

    def hidden(self) -> list[Hidden]:
        """Return what was being made or deleted when its server died, or is at this moment."""
        return list_hidden(self.root) if self.root.is_dir() else []

    def read(self, name: str) -> ModuleRecord:
        """Return a module as its file says it is.

        Raises:
            NotFound: there is no file.
            Damaged: it is not as it was written, or another module's.
        """
        record = read_record(ModuleRecord, self.path(name) / MODULE_FILE)
        if record.name != name:
            raise Damaged(f"{name}/{MODULE_FILE}", f"module {record.name!r}", f"module {name!r}")
        return record

    def read_request(self, name: str) -> CreationRequest | None:
        """Return the request that made a module, None if it had no key or is not readable."""
        try:
            return read_record(CreationRequest, self.path(name) / _REQUEST_FILE)
        except (NotFound, Invalid):
            return None

    # -- changes ------------------------------------------------------------------------------

    @contextmanager
    def created(self, record: ModuleRecord, request: CreationRequest | None) -> Iterator[None]:
        """Make a module's directory; it is gone again if the block raises.

        Raises:
            AlreadyExists: something lies there.
        """
        target = self.path(record.name)
        if target.exists():
            raise AlreadyExists(
                "files of a module",
                record.name,
                f"choose another name, or see what 'modserve recover' says of {target}",
            )
        make_directory(self.root, parents=True)
        incoming = hidden_sibling(target, "incoming")
        try:
            incoming.mkdir()
            write_durably(incoming / MODULE_FILE, _content(record))
            if request is not None:
                write_durably(incoming / _REQUEST_FILE, encode_record(request))
            os.rename(incoming, target)
            incoming = target
            sync_directory(self.root)
            yield
        except BaseException:
            discard(incoming)
            raise

    def write(self, record: ModuleRecord) -> None:
        """Write a module's file, whatever is there; its directory too if need be."""
        directory = self.path(record.name)
        make_directory(directory, parents=True)
        write_durably(directory / MODULE_FILE, _content(record))

    def replaced(self, record: ModuleRecord) -> AbstractContextManager[None]:
        """Write a module's file; the one before is back if the block raises."""
        directory = self.path(record.name)
        make_directory(directory, parents=True)
        return replaced(directory / MODULE_FILE, _content(record))

    @contextmanager
    def deleted(self, name: str) -> Iterator[None]:
        """Remove a module's directory; it is back if the block raises."""
        target = self.path(name)
        hidden = hidden_sibling(target, "deleting")
        if not target.exists():
            yield
            return
        try:
            rename_durably(target, hidden)
            yield
        except BaseException:
            if hidden.exists():
                rename_durably(hidden, target)
            raise
        remove_tree(hidden)

    # -- after a death ------------------------------------------------------------------------

    def finish(self, hidden: Hidden, is_known: bool) -> None:
        """Finish what a dead server left under a hidden name.

        Args:
            is_known: the database has a module of this name.
        """
        target = self.root / hidden.target
        if hidden.purpose == "deleting" and is_known and not target.exists():
            rename_durably(hidden.path, target)  # the deletion was never answered
        elif hidden.purpose in ("incoming", "deleting", "trash"):
            discard(hidden.path)

    def clean(self, name: str) -> None:
        """Remove what a death left in a module's directory of a change of its file."""
        for hidden in list_hidden(self.path(name)):
            if hidden.purpose in ("part", "undo"):
                hidden.path.unlink(missing_ok=True)

    def set_aside(self, name: str) -> Path:
        """Give a damaged record file another name and return that; nothing is lost."""
        path = self.path(name) / MODULE_FILE
        number = 1
        while (aside := path.with_name(f"{MODULE_FILE}.damaged-{number}")).exists():
            number += 1
        rename_durably(path, aside)
        return aside


def _content(record: ModuleRecord) -> bytes:
    return encode_record(record.evolve(id=0))
