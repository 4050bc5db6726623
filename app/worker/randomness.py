"""A random stream for every module and job of an executor.

The engine has one generator per device. Each module and each job gets the generators to itself
while it runs, so that what it draws does not depend on what else the executor does in between.
"""

from __future__ import annotations

import secrets
from collections.abc import Hashable, Iterable
from typing import Any

import core.random
from core.device import Context, cpu

__all__ = ["RandomStreams"]


class RandomStreams:
    """The positions of all streams; one of them is that of the engine's generators."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, dict[str, Any]] = {}
        self._current: Hashable = None

    def enter(self, key: Hashable) -> None:
        """Let the engine draw from a stream; a new one begins at a place nobody can foresee."""
        if key == self._current:
            return
        self._keep_current()
        if key in self._kept:
            core.random.set_state(self._kept.pop(key))
        else:
            core.random.seed(secrets.randbits(63))
        self._current = key

    def seed(self, key: Hashable, value: int, contexts: Iterable[Context]) -> None:
        """Begin a stream anew; ``contexts`` are the devices that draw from it."""
        self._keep_current()
        self._current = key
        core.random.seed(value)
        for context in (cpu(0), *contexts):
            core.random.device_random(context)

    def position(self, key: Hashable) -> dict[str, Any]:
        """Return the position of a stream as plain data."""
        self.enter(key)
        return core.random.get_state()

    def set_position(self, key: Hashable, position: dict[str, Any]) -> None:
        """Go on from what ``position`` returned."""
        self._keep_current()
        self._current = key
        core.random.set_state(position)

    def forget(self, key: Hashable) -> None:
        """Drop a stream."""
        self._kept.pop(key, None)
        if self._current == key:
            self._current = None

    def _keep_current(self) -> None:
        if self._current is not None:
            self._kept[self._current] = core.random.get_state()
            self._current = None
