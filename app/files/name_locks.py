"""Locks by name, common to all threads and all servers of one data directory.

Who changes a file and the row that belongs to it has the name's lock from before the first to after
the second, so that nobody finds them disagreeing but who comes after a death. The kernel unlocks
what a dead process had. A fixed number of lock files serves all names (lock striping): never take
two names' locks of one folder in each other.
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
    """The locks of one kind of names."""

    def __init__(self, directory: Path) -> None:
        """Prepare.

        Args:
            directory: where the lock files lie; made when first needed.
        """
        self._directory = directory

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Have a name's lock for the block, waiting for it; raise Unavailable after a while."""
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / f"{zlib.crc32(name.encode()) % _STRIPES:02x}.lock"
        path.touch()
        with locked(path, seconds=_LONGEST_SECONDS):
            yield
