"""Modules on disk, which are authoritative: the database follows them.

    <data>/modules/<module>/module.json         the record
    <data>/modules/<module>/request.json        the request that made it, if that had a key
    <data>/modules/<module>/checkpoints/...     see ``checkpoint_files``

A file is always at least as new as the database: it is written first, and put back if the database
refuses. Modules are created and deleted under hidden names:

    .incoming-<module>-...    being created
    .deleting-<module>-...    deleted, but perhaps not yet in the database
    .trash-<module>-...       deleted
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.domain.module import ModuleRecord
from app.domain.names import check_name
from app.errors.tree import AlreadyExists, Damaged, Invalid, NotFound
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
    """The request that created a module, for when it is repeated: see ``app.store.idempotency``."""

    key: str
    fingerprint: str


class ModuleDirectories:
    """The modules' directories. Changing a module requires its lock."""

    def __init__(self, data_dir: Path) -> None:
        """Prepare; the directory is created with the first module."""
        self.root = data_dir / "modules"
        self._locks = NameLocks(data_dir / "locks" / "modules")

    def path(self, name: str) -> Path:
        """Return the path of a module's files; raise Invalid for an invalid name."""
        return self.root / check_name(name, "module")

    def locked(self, name: str) -> AbstractContextManager[None]:
        """Hold a module's lock for a block."""
        return self._locks.locked(name)

    def names(self) -> list[str]:
        """Return the names of all modules' directories, ignoring files that are not ours."""
        found = []
        for path in sorted(self.root.iterdir()) if self.root.is_dir() else ():
            try:
                found.append(check_name(path.name))
            except Invalid:
                continue
        return found

    def hidden(self) -> list[Hidden]:
        """Return what is being created or deleted, or was when a server crashed."""
        return list_hidden(self.root) if self.root.is_dir() else []

    def read(self, name: str) -> ModuleRecord:
        """Return the module that a file describes.

        Raises:
            NotFound: there is no file.
            Damaged: the file was altered, or is another module's.
        """
        record = read_record(ModuleRecord, self.path(name) / MODULE_FILE)
        if record.name != name:
            raise Damaged(f"{name}/{MODULE_FILE}", f"module {record.name!r}", f"module {name!r}")
        return record

    def read_request(self, name: str) -> CreationRequest | None:
        """Return the request that created a module, None if it had no key or cannot be read."""
        try:
            return read_record(CreationRequest, self.path(name) / _REQUEST_FILE)
        except (NotFound, Invalid):
            return None

    # -- changes ------------------------------------------------------------------------------

    @contextmanager
    def created(self, record: ModuleRecord, request: CreationRequest | None) -> Iterator[None]:
        """Create a module's directory; remove it again if the block raises.

        Raises:
            AlreadyExists: the path exists.
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
        """Write a module's file, and create its directory if needed."""
        directory = self.path(record.name)
        make_directory(directory, parents=True)
        write_durably(directory / MODULE_FILE, _content(record))

    def replaced(self, record: ModuleRecord) -> AbstractContextManager[None]:
        """Write a module's file; restore the previous one if the block raises."""
        directory = self.path(record.name)
        make_directory(directory, parents=True)
        return replaced(directory / MODULE_FILE, _content(record))

    @contextmanager
    def deleted(self, name: str) -> Iterator[None]:
        """Remove a module's directory; restore it if the block raises.

        The block deletes the module from the database. Until it ends, the directory is only
        hidden, so that ``finish`` can bring it back if this server dies in between.
        """
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
        """Finish what a crashed server left under a hidden name.

        Args:
            is_known: whether the database has a module of this name.
        """
        target = self.root / hidden.target
        if hidden.purpose == "deleting" and is_known and not target.exists():
            rename_durably(hidden.path, target)  # the deletion was never confirmed to the client
        elif hidden.purpose in ("incoming", "deleting", "trash"):
            discard(hidden.path)

    def clean(self, name: str) -> None:
        """Remove what an interrupted change of a module's file left in its directory."""
        for hidden in list_hidden(self.path(name)):
            if hidden.purpose in ("part", "undo"):
                hidden.path.unlink(missing_ok=True)

    def set_aside(self, name: str) -> Path:
        """Rename a damaged record, so that nothing is lost; return its new path."""
        path = self.path(name) / MODULE_FILE
        number = 1
        while (aside := path.with_name(f"{MODULE_FILE}.damaged-{number}")).exists():
            number += 1
        rename_durably(path, aside)
        return aside


def _content(record: ModuleRecord) -> bytes:
    return encode_record(record.evolve(id=0))
