"""Locks that give an executor's name to one server, so that a module lives in a single process.

Two servers can share a data directory if their executors have different names. With the same name,
each would have its own copy of a module, and would not notice that the other trains it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path

from app.errors.tree import StartError

__all__ = ["ExecutorLocks"]


class ExecutorLocks:
    """The executors' names that this server has locked; the kernel releases them if it dies."""

    def __init__(self, directory: Path) -> None:
        """Prepare.

        Args:
            directory: for the lock files; in the data directory.
        """
        self._directory = directory
        self._descriptors: list[int] = []

    def take(self, names: Iterable[str]) -> None:
        """Lock all these names; if another server has one, lock none and raise StartError."""
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
