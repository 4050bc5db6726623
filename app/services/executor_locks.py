"""Locks that give an executor's name to one server, so that a module lives in a single process.

Two servers with one data directory may share the work by having executors of different names. Of
the same name they would hold two copies of a module, and a training on one would go unnoticed by
the other.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path

from app.errors import StartError

__all__ = ["ExecutorLocks"]


class ExecutorLocks:
    """The executors' names that this server has locked; the kernel releases them if it dies."""

    def __init__(self, directory: Path) -> None:
        """Prepare.

        Args:
            directory: where the files of the locks lie; in the data directory.
        """
        self._directory = directory
        self._descriptors: list[int] = []

    def take(self, names: Iterable[str]) -> None:
        """Take names; raise StartError, with none taken, where another server has one."""
        self._directory.mkdir(parents=True, exist_ok=True)
        try:
            for name in names:
                self._descriptors.append(self._lock(name))
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Unlock all names."""
        while self._descriptors:
            os.close(self._descriptors.pop())

    def _lock(self, name: str) -> int:
        path = self._directory / f"{name}.lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
        except BlockingIOError:
            pid = os.pread(descriptor, 20, 0).decode()
            os.close(descriptor)
            raise StartError(
                f"executor {name} of data directory {self._directory.parent} belongs to the server "
                f"with process id {pid}; end that one, or give this one another data directory or "
                "other devices"
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor
