"""A local server process, for the demo, benchmarks and tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.client import Client

__all__ = ["PROGRAM", "ServerProcess", "running_server", "start_server"]

PROGRAM = ("-m", "app")
_LISTENING = re.compile(rb"listening on (https?://\S+) ")


@dataclass(frozen=True)
class ServerProcess:
    """A server that was started on this machine."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path


def start_server(
    folder: Path,
    *,
    port: int = 0,
    environment: Mapping[str, str] | None = None,
    start_seconds: float = 60.0,
    program: Sequence[str] = PROGRAM,
) -> ServerProcess:
    """Start ``modserve serve`` with its data in a folder, and wait until it is ready.

    Args:
        port: to listen on; 0 lets the server choose a free one. Do not choose one here: it could be
            taken before the server binds it.
        program: arguments to Python that start the server instead of modserve.

    Raises:
        RuntimeError: it ended, or was not ready in time; the message contains the log.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "server.log"
    command = [sys.executable, *program, "serve", "--port", str(port)]
    with log.open("ab") as output:
        begin = output.tell()
        process = subprocess.Popen(
            [*command, "--data-dir", str(folder)],
            stdout=output,
            stderr=output,
            env={**os.environ, "MODSERVE_LOG_LEVEL": "info", **(environment or {})},
        )
    deadline = time.monotonic() + start_seconds
    try:
        while (url := _ready_url(log, begin)) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start:\n{log.read_text()[-4000:]}")
            time.sleep(0.05)
    except BaseException:
        _kill(process)
        raise
    return ServerProcess(process, url, log)


def _ready_url(log: Path, begin: int) -> str | None:
    """Return the address that a server has written to its log, once it is ready."""
    with log.open("rb") as lines:
        lines.seek(begin)
        found = _LISTENING.search(lines.read())
    if found is None:
        return None
    url = found[1].decode()
    with Client(url) as client:
        return url if client.is_ready() else None


@contextmanager
def running_server(
    folder: Path,
    *,
    port: int = 0,
    environment: Mapping[str, str] | None = None,
    program: Sequence[str] = PROGRAM,
) -> Iterator[ServerProcess]:
    """Run a server until the block ends."""
    server = start_server(folder, port=port, environment=environment, program=program)
    try:
        yield server
    finally:
        server.process.terminate()
        try:
            server.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            _kill(server.process)
        except BaseException:  # after a second Ctrl-C: no process of ours may survive this one
            _kill(server.process)
            raise


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
