"""Warns of a disk that is full, or nearly so, before somebody's checkpoint fails because of it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from app.store.store import Store

__all__ = ["DiskSpace"]

_LEAST_BYTES = 2 << 20
_PLENTY_BYTES = 100 << 20
_LEAST_PART = 0.01
_MEBIBYTE = 1 << 20


class DiskSpace:
    """The space left for a server's files. Its methods block."""

    def __init__(self, store: Store, folders: Iterable[Path]) -> None:
        """Prepare.

        Args:
            folders: the data directory, and that of the database if it is another.
        """
        self._store = store
        self._folders = tuple(folders)

    def warnings(self) -> list[str]:
        """Return a warning for each disk that is full, or has less than a hundredth left."""
        disks = {os.stat(folder).st_dev: folder for folder in self._folders}
        found = [text for folder in disks.values() if (text := _shortage(folder))]
        if not found and self._store.is_full:
            found.append(f"the disk of the database refused a write as full; {_ADVICE}")
        return found


def _shortage(folder: Path) -> str | None:
    disk = os.statvfs(folder)
    left, size = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
    if left < max(_LEAST_BYTES, min(_PLENTY_BYTES, _LEAST_PART * size)):
        what = f"the disk of {folder} has {left // _MEBIBYTE:,} of {size // _MEBIBYTE:,} MiB left"
        return f"{what}; {_ADVICE}"
    if disk.f_files and not disk.f_favail:
        return f"the disk of {folder} can hold no more files; {_ADVICE}"
    return None


_ADVICE = (
    "uploads and jobs fail with storage_full: delete datasets, checkpoints or modules, or give it "
    "more room"
)
