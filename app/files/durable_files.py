"""Files and directories that are either wholly there or not at all, whenever the power goes."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.domain.checkpoint import FileDigest

__all__ = [
    "digest_file",
    "discard",
    "hidden_sibling",
    "is_locked",
    "locked",
    "rename_durably",
    "sync_directory",
    "sync_file",
]

_CHUNK = 1 << 20


def sync_file(path: Path) -> None:
    """Return when the file's bytes are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: Path) -> None:
    """Return when the directory's entries (creations, renames) are on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename_durably(source: Path, target: Path) -> None:
    """Rename within one directory and return when the renaming is on the disk."""
    os.rename(source, target)
    sync_directory(target.parent)


def hidden_sibling(path: Path, purpose: str) -> Path:
    """Return a path beside this one that no client can name: names have no leading dot."""
    return path.parent / f".{purpose}-{path.name}-{uuid.uuid4().hex[:12]}"


def discard(path: Path) -> None:
    """Remove a file or a directory with all in it; a directory first goes out of sight whole."""
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    if not path.name.startswith(".trash-"):
        hidden = hidden_sibling(path, "trash")
        rename_durably(path, hidden)
        path = hidden
    shutil.rmtree(path)


def digest_file(path: Path) -> FileDigest:
    """Return size and SHA-256 of a file."""
    digest = hashlib.sha256()
    size = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return FileDigest(size=size, sha256=digest.hexdigest())


@contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Lock a file or directory, waiting for it; the kernel unlocks it when the process dies.

    Args:
        shared: others may lock it meanwhile who share as well.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Tell whether a living process has locked the file or directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
