"""Files and directories that are either wholly there or not at all, whenever the power goes."""

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
from app.errors import Unavailable, refined

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
_HIDDEN = re.compile(r"\.(incoming|replaced|trash|upload|part|undo|deleting)-(.+)-[0-9a-f]{12}")


class Hidden(NamedTuple):
    """What ``hidden_sibling`` named: why it is there, and the name it stands beside."""

    purpose: str
    target: str
    path: Path


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


def make_directory(path: Path, *, parents: bool = False) -> None:
    """Make a directory if there is none; return when its entry is on the disk.

    Args:
        parents: make those above it as well.
    """
    if path.is_dir():
        return
    if parents:
        make_directory(path.parent, parents=True)
    path.mkdir(exist_ok=True)
    sync_directory(path.parent)


def rename_durably(source: Path, target: Path) -> None:
    """Rename within one directory and return when the renaming is on the disk."""
    os.rename(source, target)
    sync_directory(target.parent)


@contextmanager
def tell_full_disk() -> Iterator[None]:
    """Raise a disk without room as an error of ours, which is an answer."""
    try:
        yield
    except OSError as error:
        known = refined(error)
        if known is error:
            raise
        raise known from error


def write_durably(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Write a file over the existing one; whenever the power goes, one of them is whole.

    Args:
        mode: who may read and write it, from the beginning; the umask takes of it.
    """
    part = hidden_sibling(path, "part")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


@contextmanager
def replaced(path: Path, data: bytes) -> Iterator[None]:
    """Write a file durably; if the block raises, what was there before is there again."""
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
        undo.unlink(missing_ok=True)  # of two names of one file a renaming leaves both


def hidden_sibling(path: Path, purpose: str) -> Path:
    """Return a path beside this one that no client can name: names have no leading dot."""
    return path.parent / f".{purpose}-{path.name}-{uuid.uuid4().hex[:12]}"


def has_hidden(directory: Path) -> bool:
    """Return whether something may lie in a directory, if there is one, under a hidden name."""
    try:
        return any(name.startswith(".") for name in os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return False


def list_hidden(directory: Path) -> list[Hidden]:
    """Return what lies in a directory under a name of ``hidden_sibling``; nothing else is ours."""
    found = [_HIDDEN.fullmatch(name) for name in sorted(os.listdir(directory))]
    return [Hidden(one[1], one[2], directory / one[0]) for one in found if one is not None]


def discard(path: Path) -> None:
    """Remove a file or a directory with all in it; a directory first goes out of sight whole."""
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    if not path.name.startswith(".trash-"):
        hidden = hidden_sibling(path, "trash")
        rename_durably(path, hidden)
        path = hidden
    remove_tree(path)


def remove_tree(path: Path) -> None:
    """Remove a directory that is out of sight already, which needs no room on a full disk."""
    shutil.rmtree(path, onerror=_unless_gone)


def _unless_gone(function: Any, path: str, error: Any) -> None:
    """Go on where another server removes the same: both of them found it."""
    if not issubclass(error[0], FileNotFoundError):
        raise error[1]


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
def locked(path: Path, *, shared: bool = False, seconds: float | None = None) -> Iterator[None]:
    """Lock a file or directory, waiting for it; the kernel unlocks it when the process dies.

    Args:
        shared: others may lock it meanwhile who share as well.
        seconds: the longest to wait; None waits for ever.

    Raises:
        Unavailable: another process has it locked all the time, for it may have been stopped.
    """
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
                raise Unavailable(f"{path} is locked by a process that does not go on") from None
            time.sleep(_LOCK_POLL_SECONDS)


def is_locked(path: Path) -> bool:
    """Return whether a living process has locked the file or directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def remove_unlocked(path: Path) -> bool:
    """Remove a file or directory unless a living process has it locked; tell whether it did.

    It is locked meanwhile: who was about to lock it finds afterwards that it is gone.
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
