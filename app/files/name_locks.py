"""Locks by name, shared by all threads and all servers of one data directory.

A file and its database row are changed under the lock of their name, so that only recovery after a
crash can find them disagreeing. The kernel releases the locks of dead processes. A fixed number of
lock files serves all names (lock striping): never take the locks of two names of one folder at
once.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.files.durable_files import locked

__all__ = ["NameLocks"]

_STRIPES = 256
_LONGEST_SECONDS = 30.0  # as long as SQLite waits for another writer


class NameLocks:
    """The locks of one kind of name."""

    def __init__(self, directory: Path) -> None:
        """Prepare.

        Args:
            directory: of the lock files; created when first needed.
        """
        self._directory = directory

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Hold the lock of a name for the block; raise Unavailable if it cannot be had in time."""
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / f"{zlib.crc32(name.encode()) % _STRIPES:02x}.lock"
        path.touch()
        with locked(path, seconds=_LONGEST_SECONDS):
            yield
