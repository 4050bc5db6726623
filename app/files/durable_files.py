"""Files and directories that appear completely or not at all, even after a power failure."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from app.domain.checkpoint import FileDigest
from app.errors.tree import Unavailable, refined

__all__ = [
    "Hidden",
    "digest_file",
    "discard",
    "has_hidden",
    "hidden_sibling",
    "is_locked",
    "list_hidden",
    "locked",
    "make_directory",
    "remove_tree",
    "remove_unlocked",
    "rename_durably",
    "replaced",
    "sync_directory",
    "sync_file",
    "tell_full_disk",
    "write_durably",
]

_CHUNK = 1 << 20
_LOCK_POLL_SECONDS = 0.005
_HIDDEN = re.compile(
    r"\.(incoming|replaced|trash|upload|part|undo|deleting|backup)-(.+)-[0-9a-f]{12}"
)


class Hidden(NamedTuple):
    """A hidden path made by ``hidden_sibling``: its purpose, and the file name it belongs to."""

    purpose: str
    target: str
    path: Path


def sync_file(path: Path) -> None:
    """Sync the file's content to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: Path) -> None:
    """Sync the directory's entries (creations, renames) to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path, *, parents: bool = False, mode: int = 0o777) -> None:
    """Create a directory unless it exists, and sync its entry to disk.

    Args:
        parents: create missing parents too.
        mode: permissions of the directory itself, less the umask.
    """
    if path.is_dir():
        return
    if parents:
        make_directory(path.parent, parents=True)
    path.mkdir(mode, exist_ok=True)
    sync_directory(path.parent)


def rename_durably(source: Path, target: Path) -> None:
    """Rename within one directory, and sync the rename to disk."""
    os.rename(source, target)
    sync_directory(target.parent)


@contextmanager
def tell_full_disk() -> Iterator[None]:
    """Translate a full disk into StorageFull, which has an HTTP status."""
    try:
        yield
    except OSError as error:
        known = refined(error)
        if known is error:
            raise
        raise known from error


def write_durably(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Replace a file; after a power failure either the old or the new one is complete.

    Args:
        mode: permissions of the new file from its creation on, less the umask.
    """
    part = hidden_sibling(path, "part")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())  # before the rename, which may reach the disk before the data
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


@contextmanager
def replaced(path: Path, data: bytes) -> Iterator[None]:
    """Write a file durably; restore the previous one if the block raises."""
    undo = hidden_sibling(path, "undo")
    is_there = path.exists()
    if is_there:
        os.link(path, undo)
    try:
        write_durably(path, data)
        yield
    except BaseException:
        if is_there:
            rename_durably(undo, path)
        else:
            path.unlink(missing_ok=True)
            sync_directory(path.parent)
        raise
    finally:
        undo.unlink(missing_ok=True)  # rename keeps both links of one file


def hidden_sibling(path: Path, purpose: str) -> Path:
    """Return a path beside this one that no client can name: clients' names have no leading dot."""
    return path.parent / f".{purpose}-{path.name}-{uuid.uuid4().hex[:12]}"


def has_hidden(directory: Path) -> bool:
    """Return whether a directory exists and may contain hidden names."""
    try:
        return any(name.startswith(".") for name in os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return False


def list_hidden(directory: Path) -> list[Hidden]:
    """List the paths in a directory that ``hidden_sibling`` named; no others are ours."""
    found = [_HIDDEN.fullmatch(name) for name in sorted(os.listdir(directory))]
    return [Hidden(one[1], one[2], directory / one[0]) for one in found if one is not None]


def discard(path: Path) -> None:
    """Remove a file or a directory tree; a directory is renamed to a hidden name first."""
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    if not path.name.startswith(".trash-"):
        hidden = hidden_sibling(path, "trash")
        rename_durably(path, hidden)
        path = hidden
    remove_tree(path)


def remove_tree(path: Path) -> None:
    """Remove a directory that is already hidden; a rename might fail on a full disk."""
    shutil.rmtree(path, onerror=_unless_gone)


def _unless_gone(function: Any, path: str, error: Any) -> None:
    """Ignore a missing file: another server may be removing the same tree."""
    if not issubclass(error[0], FileNotFoundError):
        raise error[1]


def digest_file(path: Path) -> FileDigest:
    """Return the size and SHA-256 of a file."""
    digest = hashlib.sha256()
    size = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return FileDigest(size=size, sha256=digest.hexdigest())


@contextmanager
def locked(path: Path, *, shared: bool = False, seconds: float | None = None) -> Iterator[None]:
    """Lock a file or directory, waiting if needed; the kernel unlocks it if the process dies.

    Args:
        shared: let others lock it at the same time if they share it too.
        seconds: longest time to wait; None waits without limit.

    Raises:
        Unavailable: another process held the lock the whole time; it may have been suspended.
    """
    # ``flock`` locks what was opened here, not the process: two threads exclude each other, and
    # taking the same lock twice waits for oneself.
    descriptor = os.open(path, os.O_RDONLY)
    mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        if seconds is None:
            fcntl.flock(descriptor, mode)
        else:
            _lock_within(descriptor, mode, seconds, path)
        yield
    finally:
        os.close(descriptor)


def _lock_within(descriptor: int, mode: int, seconds: float, path: Path) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise Unavailable(f"{path} is locked by a process that makes no progress") from None
            time.sleep(_LOCK_POLL_SECONDS)


def is_locked(path: Path) -> bool:
    """Return whether a living process holds a lock on the file or directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def remove_unlocked(path: Path) -> bool:
    """Remove a file or directory unless a living process has it locked; return whether it did.

    It is locked while it is removed: a process that was waiting for the lock finds it gone.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        discard(path)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
