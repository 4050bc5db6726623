"""Disk space held in reserve, so that errors can still be recorded on a full disk."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

__all__ = ["DiskReserve"]

_BYTES = 1 << 20
_RETRY_SECONDS = 10.0


class DiskReserve:
    """A file that occupies disk space, and is deleted when the database needs that space."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tried_at = -_RETRY_SECONDS
        self._is_given_up = False

    @property
    def is_given_up(self) -> bool:
        """True from when the disk was full until the space could be reserved again."""
        return self._is_given_up

    @property
    def is_due(self) -> bool:
        """True if ``keep`` would try to reserve the space; it does so only now and then."""
        return time.monotonic() - self._tried_at >= _RETRY_SECONDS

    def keep(self) -> None:
        """DiskReserve the space, unless it is reserved already or was tried a moment ago."""
        if not self.is_due:
            return
        self._tried_at = time.monotonic()
        with contextlib.suppress(OSError):
            if self._path.exists():
                return
            part = self._path.with_suffix(".part")
            try:
                descriptor = os.open(part, os.O_WRONLY | os.O_CREAT, 0o600)
                try:
                    # A file that is only made longer would be sparse, and reserve nothing.
                    os.posix_fallocate(descriptor, 0, _BYTES)
                finally:
                    os.close(descriptor)
                os.replace(part, self._path)
                self._is_given_up = False
            except OSError:
                part.unlink(missing_ok=True)

    def give_up(self) -> None:
        """Free the reserved space for the database."""
        self._tried_at = time.monotonic()
        self._is_given_up = True
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
