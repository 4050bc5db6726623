"""The clock of a store, which runs on when somebody sets the machine's clock.

It begins with the machine's clock at the first start after a boot. The store keeps the difference
between the two, so that all servers of that boot agree on the time, and a restarted one goes on
with it. Servers of a Postgres database may run on several machines and begin with its clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Connection, delete, insert, select, text

from app.domain.moment import Moment
from app.store.schema import counters

__all__ = ["StoreClock", "open_clock", "seconds_since_boot"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_BOOT, _OFFSET = "clock_boot", "clock_offset"
_MICRO = 1e6


class StoreClock:
    """Tells the moment. Thread-safe."""

    def __init__(self, offset: float, wall: Callable[[], float] = time.time) -> None:
        """Prepare.

        Args:
            offset: what is added to the seconds since the boot.
            wall: the machine's clock.
        """
        self._offset = offset
        self._wall = wall

    def __call__(self) -> Moment:
        """Return the present moment."""
        return Moment(self._wall(), seconds_since_boot() + self._offset)


def open_clock(
    connection: Connection, wall: Callable[[], float] = time.time, *, begins: bool = True
) -> StoreClock:
    """Return the clock of a store.

    Args:
        begins: note when it began, if this boot has none yet.
    """
    if connection.dialect.name != "sqlite":
        present = connection.scalar(text("SELECT EXTRACT(EPOCH FROM clock_timestamp())"))
        return StoreClock(float(present or wall()) - seconds_since_boot(), wall)
    boot = _boot()
    offset = _noted_offset(connection, boot)
    if offset is None:
        offset = wall() - seconds_since_boot()
        if begins:
            _note(connection, boot, offset)
    return StoreClock(offset, wall)


def seconds_since_boot() -> float:
    """Return the time since the machine was started, with the time that it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _boot() -> int | None:
    """Return a number for this boot; None if the system does not tell."""
    try:
        return int(_BOOT_ID.read_text().strip().replace("-", "")[:15], 16)
    except (OSError, ValueError):
        return None


def _noted_offset(connection: Connection, boot: int | None) -> float | None:
    rows = select(counters.c.name, counters.c.value).where(counters.c.name.in_((_BOOT, _OFFSET)))
    noted = {name: value for name, value in connection.execute(rows)}
    if boot is None or noted.get(_BOOT) != boot or _OFFSET not in noted:
        return None
    return float(noted[_OFFSET] / _MICRO)


def _note(connection: Connection, boot: int | None, offset: float) -> None:
    connection.execute(delete(counters).where(counters.c.name.in_((_BOOT, _OFFSET))))
    if boot is not None:
        rows = [
            {"name": _BOOT, "value": boot},
            {"name": _OFFSET, "value": round(offset * _MICRO)},
        ]
        connection.execute(insert(counters), rows)
