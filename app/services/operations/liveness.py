"""Liveness of servers: each holds a lock on its own file, which the kernel releases at its death.

A job names the server that claimed it. Another server on the same disk can tell at once whether
that one is dead; for a server elsewhere, whose file is not here, only the lease tells.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from pathlib import Path

from app.files.durable_files import is_locked, remove_unlocked

__all__ = ["Liveness"]


class Liveness:
    """This server's liveness, and that of the others on this disk.

    Attributes:
        server: unique id of this server process.
    """

    def __init__(self, directory: Path) -> None:
        """Prepare; ``enter`` registers this server.

        Args:
            directory: of the servers' files, shared by all servers on this disk.
        """
        self.server = uuid.uuid4().hex
        self._directory = directory
        self._descriptor: int | None = None

    def enter(self) -> None:
        """Register this server as alive."""
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._path(self.server)
        while self._descriptor is None:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if path.exists():
                self._descriptor = descriptor
            else:  # before it was locked, another server took it for a dead one's and removed it
                os.close(descriptor)

    def leave(self) -> None:
        """Release this server's lock, so that others see it as dead."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def is_dead(self, server: str) -> bool:
        """Return whether a server is known to be dead; False if nothing is known about it."""
        if server == self.server:
            return self._descriptor is None
        try:
            return not is_locked(self._path(server))
        except FileNotFoundError:
            return False

    def others(self) -> list[str]:
        """Return the ids of the other servers that are alive."""
        ids = [path.stem for path in self._directory.glob("*.lock")]
        return [one for one in ids if one != self.server and not self.is_dead(one)]

    def forget_dead(self, needed: set[str]) -> None:
        """Remove the files of dead servers, except those in ``needed``, which jobs still name."""
        for path in self._directory.glob("*.lock"):
            if path.stem not in needed:
                remove_unlocked(path)

    def _path(self, server: str) -> Path:
        return self._directory / f"{server}.lock"
