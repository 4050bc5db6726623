"""``modserve backup``: a copy of a data directory, made while a server is using it.

The database is copied first, at one moment. Files copied after it may be newer, and take precedence
when the copy is opened. Files that never change are hard-linked if possible.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from app.cli.maintenance.backup_manifest import DATABASE, BackupManifest, write_backup
from app.domain.checkpoint import FileDigest
from app.domain.dataset import DatasetRecord
from app.errors.tree import Damaged, NotFound, StartError, Unavailable
from app.files.checkpoint_files import MANIFEST, list_tags, verify_checkpoint
from app.files.copies import link_or_copy, sync_tree
from app.files.dataset_directory import DatasetDirectory
from app.files.directory_id import read_id, settled_id_file
from app.files.durable_files import (
    digest_file,
    hidden_sibling,
    list_hidden,
    locked,
    remove_tree,
    sync_directory,
)
from app.files.last_release import last_release_file
from app.files.module_directories import ModuleDirectories
from app.files.restore_mark import check_restored
from app.store.snapshot import forget_missing, snapshot

__all__ = ["Backup", "make_backup"]

_PURPOSE = "backup"
"""Of the hidden names of unfinished copies, which begin with a word for their data directory."""


@dataclass(slots=True)
class Backup:
    """The result of a backup.

    Attributes:
        left_out: what could not be backed up, each with the reason.
        notes: other things that the operator should know.
    """

    manifest: BackupManifest
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def make_backup(data_dir: Path, url: str, target: Path) -> Backup:
    """Copy a data directory to a new or empty folder, where it appears complete or not at all.

    Raises:
        StartError: there is nothing to back up, or the target is not empty.
    """
    check_restored(data_dir)
    if read_id(data_dir) is None:
        raise StartError(f"{data_dir} is not a data directory that a server has opened")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StartError(f"{target} is not empty; give a folder that is empty or does not exist")
    target.parent.mkdir(parents=True, exist_ok=True)
    origin = _origin(data_dir)
    with _counted(data_dir, origin, target.parent):
        root = hidden_sibling(target.with_name(f"{origin}-{target.name}"), _PURPOSE)
        root.mkdir(0o700)  # a backup is as private as what it copies
        try:
            backup = _Copying(data_dir, root).run(url)
            sync_tree(root)
            os.rename(root, target)
            sync_directory(target.parent)
        except BaseException:
            shutil.rmtree(root, ignore_errors=True)
            raise
    return backup


def _origin(data_dir: Path) -> str:
    """Return a word for the data directory; one restored from its backup has the same id."""
    text = f"{read_id(data_dir)} {data_dir.stat().st_ino}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@contextmanager
def _counted(data_dir: Path, origin: str, parent: Path) -> Iterator[None]:
    """Be known as a running backup for the block; first remove what killed ones left in a folder.

    The lock is in the data directory because the folder may be on a disk without locks, as of NFS.
    """
    lock = data_dir / "locks" / "backups.lock"
    lock.parent.mkdir(exist_ok=True)
    lock.touch()
    with suppress(Unavailable), locked(lock, seconds=0.0):  # unless another backup is running
        for hidden in list_hidden(parent):
            if hidden.purpose == _PURPOSE and hidden.target.startswith(f"{origin}-"):
                remove_tree(hidden.path)
    with locked(lock, shared=True):
        yield


class _Copying:
    """A backup in progress, under a hidden name."""

    def __init__(self, data_dir: Path, root: Path) -> None:
        self._data_dir = data_dir
        self._root = root
        self._modules = ModuleDirectories(data_dir)
        self._datasets = DatasetDirectory(data_dir)
        self._left_out: list[str] = []
        self._notes: list[str] = []

    def run(self, url: str) -> Backup:
        has_database = snapshot(url, self._root / DATABASE)
        if not has_database:
            self._notes.append(
                "the database is not an SQLite file, so the job history is not in this backup: "
                "back it up with its own tools, or restore with an empty one"
            )
        modules = [name for name in self._modules.names() if self._copy_module(name)]
        datasets = self._copy_datasets()
        shutil.copyfile(*(settled_id_file(one) for one in (self._data_dir, self._root)))
        self._remove_damaged()
        if (last := last_release_file(self._data_dir)).exists():
            shutil.copyfile(last, last_release_file(self._root))
        if has_database:
            forget_missing(self._root / DATABASE, modules, [one.name for one in datasets])
        manifest = BackupManifest(
            created_at=time.time(),
            modserve=version("modserve"),
            has_database=has_database,
            modules=len(modules),
            datasets=len(datasets),
            files=self._digests(),
        )
        write_backup(self._root, manifest)
        return Backup(manifest, self._left_out, self._notes)

    def _copy_module(self, name: str) -> bool:
        """Copy a module with its checkpoints; return False if it was deleted or cannot be read."""
        source = self._modules.path(name)
        with self._modules.locked(name):
            try:
                self._modules.read(name)
            except NotFound:
                return False
            except Damaged as error:
                self._left_out.append(f"module {name}: {error}")
                return False
            for path in source.glob("*.json"):
                self._link(path)
            roots = (source / name for name in ("checkpoints", "versions", "base"))
            for root in (*roots, *source.glob("resume/*")):
                self._copy_checkpoints(root)
        return True

    def _copy_checkpoints(self, root: Path) -> None:
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(root, shared=True))
            except FileNotFoundError:
                return
            for tag in list_tags(root):
                for path in (root / str(tag)).iterdir():
                    self._link(path)

    def _copy_datasets(self) -> list[DatasetRecord]:
        copied = []
        with self._datasets.locked():
            for name in self._datasets.names():
                try:
                    record = self._datasets.read(name)
                    if record.path is None:
                        self._link(self._datasets.file(record))
                    else:
                        self._notes.append(f"dataset {name}: its file {record.path} is not copied")
                except (Damaged, OSError) as error:
                    self._left_out.append(f"dataset {name}: {error}")
                    continue
                self._link(self._datasets.root / f"{name}.json")
                copied.append(record)
        return copied

    def _remove_damaged(self) -> None:
        """Remove damaged checkpoints from the copy: a backup with damaged files is useless."""
        for path in sorted(self._root.glob(f"modules/*/*/**/{MANIFEST}")):
            try:
                verify_checkpoint(path.parent)
            except (Damaged, NotFound) as error:
                where = path.parent.relative_to(self._root / "modules")
                self._left_out.append(f"checkpoint {where}: {error}")
                shutil.rmtree(path.parent)

    def _digests(self) -> dict[str, FileDigest]:
        files = sorted(path for path in self._root.rglob("*") if path.is_file())
        return {str(path.relative_to(self._root)): digest_file(path) for path in files}

    def _link(self, path: Path) -> None:
        link_or_copy(path, self._root / path.relative_to(self._data_dir))
