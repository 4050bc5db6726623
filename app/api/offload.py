"""Work that produces a file, done in a separate process so that the server stays responsive."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

from app.errors.tree import HostError, Unavailable
from app.sandbox.process_limits import environment

__all__ = ["make_beside"]

_MODULE = "app.api.making_process"
_BLOCK = 1 << 20


def make_beside(
    what: str, work: Mapping[str, Any], memory_bytes: int, write: Callable[[bytes], object]
) -> list[str]:
    """Make a file in another process; return notes about it.

    Args:
        what: see ``app.api.making_process``.
        work: its parameters, as plain JSON.
        memory_bytes: what the process may use in addition to its own size.
        write: is called with each block of the file, and may raise if there are too many.

    Raises:
        HostError: what is wrong with the input.
        Unavailable: the process was killed.
    """
    given = json.dumps({"what": what, "work": work, "memory_bytes": memory_bytes})
    with _started() as (process, ends):
        assert process.stdin is not None
        assert process.stdout is not None
        # If the process has died already, that is found below, as it tells no end.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(given.encode())
            process.stdin.close()
        while block := process.stdout.read(_BLOCK):
            write(block)
        told = ends.read()
    if not told:
        raise Unavailable("the process that makes the file has ended; try again later")
    end = json.loads(told)
    if "error" in end:
        raise HostError(*end["error"])
    return list(end["notes"])


@contextlib.contextmanager
def _started() -> Iterator[tuple[subprocess.Popen[bytes], IO[str]]]:
    reading, writing = os.pipe()
    with os.fdopen(reading) as ends:
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE, "--end-fd", str(writing)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[writing],
                env=environment(),
            )
        finally:
            os.close(writing)  # so that reading ends when the process has closed its copy
        with process:
            try:
                yield process, ends
            finally:
                process.kill()  # if ``write`` raised; otherwise it has told its end and is done
