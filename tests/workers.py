"""How parallel test processes (pytest-xdist) share one machine."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from core.cpus import available_cpus

__all__ = ["Room"]


class Room:
    """A lock for processes, made of two files: many tests may be in the room, or one alone.

    Tests enter through the door, one at a time. A test that must be alone holds the door until the
    room is empty, so that those behind it cannot keep it waiting for ever.
    """

    def __init__(self, folder: Path) -> None:
        self._door = (folder / "door.lock").open("w")
        self._room = (folder / "room.lock").open("w")

    @contextmanager
    def entered(self, alone: bool) -> Iterator[None]:
        """Hold the room during the block, together with others or alone."""
        with _locked(self._door, fcntl.LOCK_EX):
            fcntl.flock(self._room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        try:
            yield
        finally:
            fcntl.flock(self._room, fcntl.LOCK_UN)

    def is_waited_for(self) -> bool:
        """Return whether somebody is waiting at the door."""
        try:
            with _locked(self._door, fcntl.LOCK_EX | fcntl.LOCK_NB):
                return False
        except BlockingIOError:
            return True

    def close(self) -> None:
        """Close the files."""
        self._door.close()
        self._room.close()


@contextmanager
def _locked(file: IO[str], kind: int) -> Iterator[None]:
    fcntl.flock(file, kind)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


class _Worker:
    """The hooks of one of several processes."""

    def __init__(self, room: Room) -> None:
        self._room = room

    # tryfirst puts this outside pytest-timeout's hook, so that waiting for the room does not count
    # as the test's time.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        with self._room.entered(alone=item.get_closest_marker("serial") is not None):
            return (yield)

    def pytest_unconfigure(self) -> None:
        self._room.close()


def pytest_configure(config: pytest.Config) -> None:
    """Give each worker of pytest-xdist its share of the processors, and the common room."""
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if count > 1:
        share = str(max(1, available_cpus() // count))
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            os.environ.setdefault(name, share)
        # xdist gives each worker a folder inside one for the whole run.
        run_folder = Path(config.getoption("basetemp")).parent
        config.pluginmanager.register(_Worker(Room(run_folder)))
