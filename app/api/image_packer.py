"""Makes many images a dataset in a process of its own, beside whatever the server does."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from app.api.process_limits import environment
from app.domain.codec import to_plain
from app.domain.image_packing import Packing
from app.errors import HostError, Unavailable

__all__ = ["pack_beside"]

_MODULE = "app.api.packing_process"
_BLOCK = 1 << 20


def pack_beside(
    source: Path, packing: Packing, memory_bytes: int, write: Callable[[bytes], None]
) -> None:
    """Write the npz file of a file of images, in blocks.

    Args:
        memory_bytes: that the process may take beside its own.
        write: takes each block, and may raise where there are too many.

    Raises:
        HostError: what is wrong with the images.
        Unavailable: the process was killed.
    """
    work = {"source": str(source), "packing": to_plain(packing), "memory_bytes": memory_bytes}
    with _started() as (process, faults):
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(work).encode())
            process.stdin.close()
        while block := process.stdout.read(_BLOCK):
            write(block)
        told = faults.read()
        if told:
            raise HostError(*json.loads(told))
        if process.wait():
            raise Unavailable("the process that decodes the images has ended; try again later")


@contextlib.contextmanager
def _started() -> Iterator[tuple[subprocess.Popen[bytes], IO[str]]]:
    reading, writing = os.pipe()
    with os.fdopen(reading) as faults:
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", _MODULE, "--faults-fd", str(writing)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[writing],
                env=environment(),
            )
        finally:
            os.close(writing)
        with process:
            try:
                yield process, faults
            finally:
                process.kill()
