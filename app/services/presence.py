"""Which servers live: each holds a lock on a file of its own, which the kernel drops at its death.

A job names the server that claimed it. Another server on the same disk can tell at once whether
that one is dead; of a server elsewhere (whose file is not here) only the lease tells.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from pathlib import Path

from app.files.durable_files import is_locked

__all__ = ["Presence"]


class Presence:
    """This server among the others.

    Attributes:
        server: id of this server process; never used again by another.
    """

    def __init__(self, directory: Path) -> None:
        """Prepare; ``enter`` makes this server known.

        Args:
            directory: where the servers' files lie; common to all servers on this disk.
        """
        self.server = uuid.uuid4().hex
        self._directory = directory
        self._descriptor: int | None = None

    def enter(self) -> None:
        """Make this server known as living."""
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._path(self.server)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        self._descriptor = descriptor

    def leave(self) -> None:
        """Make this server known as gone."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def is_dead(self, server: str) -> bool:
        """Return whether a server is known to be dead; False also where nothing is known of it."""
        if server == self.server:
            return self._descriptor is None
        try:
            return not is_locked(self._path(server))
        except FileNotFoundError:
            return False

    def others(self) -> list[str]:
        """Return the ids of the other servers that live."""
        ids = [path.stem for path in self._directory.glob("*.lock")]
        return [one for one in ids if one != self.server and not self.is_dead(one)]

    def forget_dead(self, needed: set[str]) -> None:
        """Remove the files of dead servers, those apart that a job still names."""
        for path in self._directory.glob("*.lock"):
            server = path.stem
            if server not in needed and self.is_dead(server):
                path.unlink(missing_ok=True)

    def _path(self, server: str) -> Path:
        return self._directory / f"{server}.lock"
