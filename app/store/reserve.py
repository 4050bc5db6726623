"""Room kept free beside a database, so that it can still note what failed when the disk is full."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

__all__ = ["Reserve"]

_BYTES = 1 << 20
_AGAIN_SECONDS = 10.0


class Reserve:
    """A file that takes room while there is some, and is given up when there is none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._looked_at = -_AGAIN_SECONDS
        self._is_given_up = False

    @property
    def is_given_up(self) -> bool:
        """True from when the disk was full until there is room again."""
        return self._is_given_up

    @property
    def is_due(self) -> bool:
        """True if ``keep`` would look after the room, which it does now and then."""
        return time.monotonic() - self._looked_at >= _AGAIN_SECONDS

    def keep(self) -> None:
        """Take the room, unless it is taken, or was asked for a moment ago and not there."""
        if not self.is_due:
            return
        self._looked_at = time.monotonic()
        with contextlib.suppress(OSError):
            if self._path.exists():
                return
            part = self._path.with_suffix(".part")
            try:
                descriptor = os.open(part, os.O_WRONLY | os.O_CREAT, 0o600)
                try:
                    os.posix_fallocate(descriptor, 0, _BYTES)
                finally:
                    os.close(descriptor)
                os.replace(part, self._path)
                self._is_given_up = False
            except OSError:
                part.unlink(missing_ok=True)

    def give_up(self) -> None:
        """Release the reserved space for the database."""
        self._looked_at = time.monotonic()
        self._is_given_up = True
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
