"""Watching and killing the processes of a server."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from app.client import Client

__all__ = [
    "ENVIRONMENT",
    "end_executor",
    "executor_pid",
    "is_running",
    "kill",
    "resident_bytes",
    "shared_memory",
    "wait_until",
]

ENVIRONMENT = {"MODSERVE_THREADS": "1"}
"""One thread, so that results are reproducible and other tests have a processor, too."""


def executor_pid(client: Client) -> int:
    """Return the process id of the server's only executor."""
    (executor,) = client.request("GET", "/v1/executors").json()["items"]
    return int(executor["pid"])


def end_executor(client: Client) -> None:
    """Kill the server's only executor and wait for its replacement."""
    first = executor_pid(client)
    kill(first)

    def is_replaced() -> bool:
        (executor,) = client.executors()
        return executor["alive"] and executor.get("pid", first) != first

    wait_until(is_replaced, "a new executor in place of the killed one")


def is_running(pid: int) -> bool:
    """Return whether a process exists and has not ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it ended before or during the read
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def kill(pid: int) -> None:
    """End a process as the kernel's out-of-memory killer would."""
    os.kill(pid, signal.SIGKILL)


def wait_until(holds: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Return once a condition holds; fail when that takes too long."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.005)


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def shared_memory() -> set[str]:
    """Return the names of shared memory on this machine that our processes could have made.

    These are the names that Python gives to ``shared_memory`` and semaphores, and modserve's own.
    Names of other programs are left out, since they come and go.
    """
    names = os.listdir("/dev/shm")
    return {name for name in names if name.startswith(("psm_", "sem.", "modserve"))}
