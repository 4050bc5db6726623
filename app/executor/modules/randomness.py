"""A random stream for every module and job of an executor.

The engine has one generator per device. Each module and each job gets the generators to itself
while it runs, so that what it draws does not depend on what else the executor does in between.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Hashable, Iterable
from typing import Any, ClassVar

from core.device import Context, cpu
from core.random import device_random, get_state, own_generators, set_state
from core.random import seed as seed_engine

__all__ = ["RandomStreams"]


class RandomStreams:
    """The positions of one executor's streams.

    The engine's generators are at the position of the stream that was entered last, by any
    executor, so all executors of a process must share one thread, except for draws in
    ``drawn_apart``.
    """

    _active: ClassVar[tuple[RandomStreams, Hashable] | None] = None

    def __init__(self) -> None:
        self._kept: dict[Hashable, dict[str, Any]] = {}

    def enter(self, key: Hashable) -> None:
        """Make the engine draw from a stream; a new stream starts at an unpredictable position."""
        if self._is_active(key):
            return
        self._activate(key)
        if key in self._kept:
            set_state(self._kept.pop(key))
        else:
            seed_engine(secrets.randbits(63))

    def seed(self, key: Hashable, value: int, contexts: Iterable[Context]) -> None:
        """Restart a stream from a seed; ``contexts`` are the devices that draw from it."""
        self._activate(key)
        self._kept.pop(key, None)
        seed_engine(value)
        # A device's generator is made, from the seed, when it is first asked for: now, so that it
        # is part of the stream's position.
        for context in (cpu(0), *contexts):
            device_random(context)

    def position(self, key: Hashable) -> dict[str, Any]:
        """Return the position of a stream as plain data."""
        self.enter(key)
        return get_state()

    def set_position(self, key: Hashable, position: dict[str, Any]) -> None:
        """Continue from what ``position`` returned."""
        self._activate(key)
        self._kept.pop(key, None)
        set_state(position)

    def drawn_apart(self, key: Hashable, work: Callable[[], None]) -> Callable[[], dict[str, Any]]:
        """Wrap work so that it draws from a stream in whichever thread it runs.

        The work returns the position for ``set_position``, from which the stream continues.
        """
        position = self.position(key)

        def draw() -> dict[str, Any]:
            with own_generators():
                set_state(position)
                work()
                return get_state()

        return draw

    def forget(self, key: Hashable) -> None:
        """Drop a stream."""
        self._kept.pop(key, None)
        if self._is_active(key):
            RandomStreams._active = None

    def _is_active(self, key: Hashable) -> bool:
        active = RandomStreams._active
        return active is not None and active[0] is self and active[1] == key

    def _activate(self, key: Hashable) -> None:
        """Save the position of the active stream; the caller sets that of the new one."""
        active = RandomStreams._active
        if active is not None:
            active[0]._kept[active[1]] = get_state()
        RandomStreams._active = (self, key)
