"""``modserve restore``: a data directory made from a backup, after verifying every byte."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from app.errors import StartError
from app.files.copies import link_or_copy, sync_tree
from app.files.durable_files import hidden_sibling, sync_directory
from app.maintenance.backup_manifest import DATABASE, BackupManifest, read_backup
from app.store.snapshot import check_database, continue_ids

__all__ = ["restore_backup"]

_LAST = ("modules", DATABASE, "directory-id")
"""Put in place last, in this order: a server opens no directory before its id exists."""


def restore_backup(source: Path, data_dir: Path, *, with_database: bool) -> BackupManifest:
    """Make a data directory from a backup.

    Args:
        source: the backup; it is not changed.
        data_dir: a folder that is empty or does not exist.
        with_database: restore the database too, if the backup has one.

    Raises:
        StartError: the backup is damaged, or the folder is not empty; nothing was restored.
    """
    if data_dir.exists() and (not data_dir.is_dir() or any(data_dir.iterdir())):
        raise StartError(f"{data_dir} is not empty; give an empty --data-dir, or a new one")
    manifest = read_backup(source)
    if manifest.has_database:
        check_database(source / DATABASE)
    data_dir.mkdir(parents=True, exist_ok=True)
    incoming = hidden_sibling(data_dir / "restore", "incoming")
    try:
        for name in manifest.files:
            if name == DATABASE:
                if with_database:
                    incoming.mkdir(exist_ok=True)
                    shutil.copyfile(source / name, incoming / name)  # it will be written to
                    continue_ids(incoming / name, time.time())
            else:
                link_or_copy(source / name, incoming / name)
        sync_tree(incoming)
        _put_in_place(incoming, data_dir)
    finally:
        shutil.rmtree(incoming, ignore_errors=True)
    return manifest


def _put_in_place(incoming: Path, data_dir: Path) -> None:
    names = sorted(path.name for path in incoming.iterdir())
    first = [name for name in names if name not in _LAST]
    for name in (*first, *(name for name in _LAST if name in names)):
        os.rename(incoming / name, data_dir / name)
        sync_directory(data_dir)
