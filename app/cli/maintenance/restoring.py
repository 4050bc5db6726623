"""``modserve restore``: a data directory made from a backup, after verifying every byte.

A mark stands in the directory from the first change to the last: see ``app.files.restore_mark``.
Until it is removed no server opens the directory, and another restore of the same backup goes on
with what is there.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from app.cli.maintenance.backup_manifest import (
    DATABASE,
    BackupManifest,
    digest_manifest,
    read_backup,
)
from app.domain.checkpoint import FileDigest
from app.errors.tree import StartError, Unavailable
from app.files.copies import link_or_copy, sync_tree
from app.files.durable_files import digest_file, locked, make_directory, sync_directory
from app.files.restore_mark import (
    RestoreMark,
    put_mark,
    read_mark,
    remove_mark,
    remove_parts_of_mark,
)
from app.store.snapshot import check_database, continue_ids

__all__ = ["restore_backup"]

_INCOMING = ".restored"
"""Folder for files that are not yet in place; what was moved out of it is complete."""


def restore_backup(
    source: Path, data_dir: Path, *, with_database: bool, say: Callable[[str], None]
) -> BackupManifest:
    """Make a data directory from a backup, or go on with a restore that was interrupted.

    Args:
        source: the backup; it is not changed.
        data_dir: a folder that is empty or does not exist, or that has a part of this backup.
        with_database: restore the database too, if the backup has one.
        say: told if it goes on.

    Raises:
        StartError: the backup is damaged, or the folder has something else; nothing was restored.
    """
    mark = RestoreMark(source=str(source.absolute()), sha256=digest_manifest(source))
    is_new = not data_dir.exists()
    if not (is_new or data_dir.is_dir()):
        raise StartError(f"{data_dir} is not a folder; give an empty --data-dir, or a new one")
    make_directory(data_dir, parents=True, mode=0o700)
    with ExitStack() as stack:
        _lock(data_dir, stack)
        present = read_mark(data_dir)
        if present is None:
            _check_empty(data_dir)
            # Before the backup is verified, which may take minutes: if that is interrupted, a
            # server would serve an empty directory.
            put_mark(data_dir, mark)
        elif present.sha256 != mark.sha256:
            raise StartError(
                f"{data_dir} has a part of another backup, {present.source}: restore that one, or "
                f"delete {data_dir} to start over with this one"
            )
        else:
            say(f"going on with the restore of {data_dir} that was interrupted")
        try:
            manifest = _verify(source)
        except (StartError, OSError):
            if present is None:
                _undo(data_dir, is_new=is_new)
            raise
        _fetch(source, data_dir, manifest, with_database=with_database)
        _put_in_place(data_dir)
        remove_mark(data_dir)
    return manifest


def _lock(data_dir: Path, stack: ExitStack) -> None:
    try:
        stack.enter_context(locked(data_dir, seconds=0.0))
    except Unavailable:
        raise StartError(f"another restore or a server is opening {data_dir}") from None


def _check_empty(data_dir: Path) -> None:
    remove_parts_of_mark(data_dir)
    if any(data_dir.iterdir()):
        raise StartError(f"{data_dir} is not empty; give an empty --data-dir, or a new one")


def _undo(data_dir: Path, *, is_new: bool) -> None:
    remove_mark(data_dir)
    if is_new:
        data_dir.rmdir()


def _verify(source: Path) -> BackupManifest:
    manifest = read_backup(source)
    if manifest.has_database:
        check_database(source / DATABASE)
    return manifest


def _fetch(source: Path, data_dir: Path, manifest: BackupManifest, *, with_database: bool) -> None:
    """Bring all files into the folder of incoming ones that are not there or in place yet."""
    incoming = data_dir / _INCOMING
    incoming.mkdir(exist_ok=True)
    for name, digest in manifest.files.items():
        if (data_dir / Path(name).parts[0]).exists():
            continue
        if name == DATABASE:
            if with_database:
                _fetch_database(source / name, incoming / name)
        elif not _is_complete(incoming / name, source / name, digest):
            (incoming / name).unlink(missing_ok=True)  # perhaps half a copy
            link_or_copy(source / name, incoming / name)
    sync_tree(incoming)


def _fetch_database(source: Path, target: Path) -> None:
    for path in target.parent.glob(f"{target.name}*"):
        path.unlink()  # an interrupted change, with its journal
    shutil.copyfile(source, target)  # no link, as it is written to
    continue_ids(target, time.time())


def _is_complete(path: Path, source: Path, expected: FileDigest) -> bool:
    try:
        return path.samefile(source) or digest_file(path) == expected
    except FileNotFoundError:
        return False


def _put_in_place(data_dir: Path) -> None:
    incoming = data_dir / _INCOMING
    for path in sorted(incoming.iterdir()):
        os.rename(path, data_dir / path.name)
    incoming.rmdir()
    sync_directory(data_dir)
