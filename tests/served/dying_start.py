"""Makes a server's first key again and again, in processes that each die one write later.

``python -m served.dying_start FOLDER``: the nth process kills itself before its nth write, and
leaves its data directory in ``n/data`` and its output in ``n/printed``. Counted as writes are:
output, opening a file for writing, making a directory, renames, syncs and changes of owner.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.cli.maintenance import ensure_key

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_MOST = 40
_NAMES = ("fsync", "replace", "rename", "mkdir", "chown", "write")


class Deaths:
    """Counts writes, and kills the process before the chosen one."""

    def __init__(self, dies_at: int) -> None:
        self._left = dies_at

    def __call__(self) -> None:
        """Count a write that is about to happen."""
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose calls count as writes."""

        def counted(*arguments: Any, **options: Any) -> Any:
            self()
            return function(*arguments, **options)

        return counted

    def of_events(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Count files opened for writing, by Python's audit events."""
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES:
            self()


def main() -> None:
    """Start once per folder, dying one write later each time, until no death occurs."""
    root = Path(sys.argv[1])
    for dies_at in range(1, _MOST):
        folder = root / str(dies_at)
        child = os.fork()
        if child == 0:
            _start(folder, dies_at)
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            return
    raise SystemExit(f"not done after {_MOST} writes")


def _start(folder: Path, dies_at: int) -> None:
    folder.mkdir()
    os.dup2(os.open(folder / "printed", os.O_WRONLY | os.O_CREAT), 1)
    deaths = Deaths(dies_at)
    for name in _NAMES:
        setattr(os, name, deaths.before(getattr(os, name)))
    sys.stdout.write = deaths.before(sys.stdout.write)  # type: ignore[method-assign]
    sys.stdout.flush = deaths.before(sys.stdout.flush)  # type: ignore[method-assign]
    sys.addaudithook(deaths.of_events)
    ensure_key(folder / "data")
    deaths()


if __name__ == "__main__":
    main()
