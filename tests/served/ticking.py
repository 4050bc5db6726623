"""A server that measures how long its event loop is blocked: ``python -m served.ticking serve``.

A task asks to run every millisecond. How late it runs, but at most the CPU time that the process
used meanwhile, is how long one piece of work blocked all others: a busy machine makes the task
later, but adds no CPU time.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.client.local_server import ServerProcess, running_server
from served.processes import wait_until
from served.sockets import Answer, exchange

__all__ = ["LONGEST_SECONDS", "Gaps", "shortest_gap", "tick", "ticking_server"]

LONGEST_SECONDS = 0.05
"""How long one piece of work may block all others."""
_TRIES = 12
_VARIABLE = "TICKING_SERVER_FILE"
_VALUES = struct.Struct("<ddQ")
_INTERVAL_SECONDS = 0.001


@dataclass(frozen=True)
class Gap:
    """The longest gap, in CPU seconds and by the clock, over a number of ticks."""

    computing: float
    by_clock: float
    ticks: int


class Gaps:
    """The gaps reported by a server."""

    def __init__(self, file: Path) -> None:
        self._file = file
        file.write_bytes(bytes(_VALUES.size))

    def reset(self) -> None:
        """Forget earlier gaps."""
        with self._file.open("r+b") as file:
            file.write(bytes(_VALUES.size))

    def longest(self) -> Gap:
        """Return the longest gap since the last reset."""
        return Gap(*_VALUES.unpack(self._file.read_bytes()))


@contextmanager
def ticking_server(
    folder: Path, environment: Mapping[str, str]
) -> Iterator[tuple[ServerProcess, Gaps]]:
    """Run a server for the duration of the block; yield it and its gaps."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "gaps"
    gaps = Gaps(file)
    paths = [str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    path = {_VARIABLE: str(file), "PYTHONPATH": os.pathsep.join(one for one in paths if one)}
    with running_server(
        folder, environment={**environment, **path}, program=("-m", "served.ticking")
    ) as server:
        yield server, gaps


def shortest_gap(
    server: ServerProcess, gaps: Gaps, request: bytes, check: Callable[[Answer], None]
) -> float:
    """Send a request several times; return the shortest of the longest gaps of each try, in s.

    Other load lengthens the gaps of some tries, but not of all.

    Args:
        server: the server.
        gaps: its gaps.
        request: the bytes to send.
        check: is called with each answer, and raises AssertionError if it is wrong.
    """
    found = []
    for _ in range(_TRIES):
        gaps.reset()
        check(exchange(server.url, request, seconds=120))
        ticks = gaps.longest().ticks
        wait_until(lambda before=ticks: gaps.longest().ticks > before + 20, "it ticks on")
        found.append(gaps.longest().computing)
        if found[-1] < LONGEST_SECONDS:
            break
    return min(found)


async def tick(file: Path) -> None:
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), _VALUES.size) as shared:
        while True:
            clock, computed = time.perf_counter(), time.process_time()
            await asyncio.sleep(_INTERVAL_SECONDS)
            late = time.perf_counter() - clock - _INTERVAL_SECONDS
            busy = min(late, time.process_time() - computed)
            computing, by_clock, ticks = _VALUES.unpack(shared[:])
            shared[:] = _VALUES.pack(max(computing, busy), max(by_clock, late), ticks + 1)


def main() -> None:
    from app.cli import main
    from app.server import server

    class TickingServer(server.Server):
        """Ticks while it serves."""

        async def startup(self, sockets=None) -> None:
            await super().startup(sockets)
            self.ticker = asyncio.create_task(tick(Path(os.environ[_VARIABLE])))

    server.Server = TickingServer
    main.main()


if __name__ == "__main__":
    main()
