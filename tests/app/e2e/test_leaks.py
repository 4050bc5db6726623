"""Whatever is killed, and whenever: no shared memory, descriptor or process is left behind."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from app.cli.demo.tour import BIND, MNIST
from app.client import Client
from app.client.local_server import ServerProcess, start_server
from served import lenet
from served.processes import (
    ENVIRONMENT,
    executor_pid,
    is_running,
    kill,
    shared_memory,
    wait_until,
)

MARK = "TEST_OF_LEAKS"
SLACK = 4
"""Descriptors that clients' connections may have open at the moment of counting."""


def counts(long: int) -> pytest.MarkDecorator:
    """Parametrize a test with the number of kills; many in the soak test."""
    short = pytest.param(4, id="short", marks=pytest.mark.slow)
    return pytest.mark.parametrize(
        "count", [short, pytest.param(long, id="long", marks=pytest.mark.soak)]
    )


@pytest.fixture
def mark() -> str:
    """The value of an environment variable that all processes of this test inherit."""
    return uuid.uuid4().hex


@pytest.fixture
def server(tmp_path: Path, mark: str) -> Iterator[ServerProcess]:
    server = start_server(tmp_path, environment={**ENVIRONMENT, MARK: mark})
    yield server
    server.process.kill()
    server.process.wait()


def marked_processes(mark: str) -> list[int]:
    """Return the living processes that a test has started, directly or indirectly."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                environment = (folder / "environ").read_bytes()
                if f"{MARK}={mark}".encode() in environment and is_running(int(folder.name)):
                    found.append(int(folder.name))
    return found


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def slab_bytes(pid: int) -> int:
    """Return the bytes of shared memory slabs that a process maps."""
    total = 0
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        if "memfd:modserve" in line:
            start, _, stop = line.split(" ")[0].partition("-")
            total += int(stop, 16) - int(start, 16)
    return total


def add_lenet(client: Client) -> None:
    """Create a module that predicts, also after a restart: its parameters are saved."""
    client.put_dataset("mnist", MNIST)
    lenet.create(client, "lenet")
    client.bind("lenet", **BIND)
    client.init_params("lenet", "xavier", seed=1)
    client.save_checkpoint("lenet", 0)


class Callers:
    """Threads that request predictions, small and large, whatever happens to the server."""

    def __init__(self, url: str, sizes: tuple[int, ...] = (1, 40, 3000)) -> None:
        self._answers: list[int] = []
        self._url = f"{url}/v1/modules/lenet/predict"
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(size,)) for size in sizes]

    def __enter__(self) -> Callers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def answered(self) -> int:
        """The number of predictions answered."""
        return len(self._answers)

    def _run(self, size: int) -> None:
        body = np.zeros((size, 1, 28, 28), np.float32).tobytes()
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({size}, 1, 28, 28), }}"
        header = header.ljust(117) + "\n"
        npy = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + body
        headers = {"content-type": "application/x-npy", "accept": "application/x-npy"}
        with httpx.Client(timeout=60, headers=headers) as http:
            while not self._stop.is_set():
                with contextlib.suppress(httpx.TransportError):
                    status = http.post(self._url, content=npy).status_code
                    if status == 200:
                        self._answers.append(status)
                        continue
                time.sleep(0.05)  # refused or unreachable


def kill_executor(client: Client, callers: Callers, chance: random.Random) -> None:
    """Kill the executor at a random moment, and wait until its successor answers."""
    victim = executor_pid(client)
    time.sleep(chance.random() * 0.3)
    kill(victim)
    wait_until(lambda: not is_running(victim), "the killed executor has ended")
    answered = callers.answered
    wait_until(lambda: callers.answered > answered + 3, "its successor answers", seconds=120)


@counts(12)  # no more: an executor that dies often is restarted only after half a minute
@pytest.mark.timeout(1200)
def test_killed_executors(server: ServerProcess, mark: str, count: int) -> None:
    before = shared_memory()
    chance = random.Random(7)
    with Client(server.url) as client:
        add_lenet(client)
        with Callers(server.url) as callers:
            wait_until(lambda: callers.answered > 20, "predictions are answered")
        idle = descriptors(server.process.pid)
        idle_slabs = slab_bytes(server.process.pid)
        for _ in range(count):
            with Callers(server.url) as callers:
                kill_executor(client, callers, chance)
        wait_until(
            lambda: descriptors(server.process.pid) <= idle + SLACK,
            f"at most {idle} descriptors are open",
        )
        assert slab_bytes(server.process.pid) <= idle_slabs + 2**28
        alive = marked_processes(mark)
        assert executor_pid(client) in alive
        executors = [pid for pid in alive if b"app.executor" in cmdline(pid)]
        assert executors == [executor_pid(client)]
    wait_until(lambda: shared_memory() <= before, "no shared memory is left")


def cmdline(pid: int) -> bytes:
    """Return a process's command line; empty if it has ended in the meantime."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


@counts(60)
@pytest.mark.timeout(1200)
def test_killed_servers(tmp_path: Path, mark: str, count: int) -> None:
    """The server is killed while it answers, alone or together with its executor."""
    before = shared_memory()
    chance = random.Random(11)
    for round_ in range(count // 2):
        server = start_server(tmp_path, environment={**ENVIRONMENT, MARK: mark})
        with Client(server.url) as client:
            if round_ == 0:
                add_lenet(client)
            executor = executor_pid(client)
        with Callers(server.url) as callers:
            wait_until(lambda: callers.answered > 3, "predictions are answered")
            time.sleep(chance.random() * 0.2)
            if chance.random() < 0.5:
                kill(executor)
            kill(server.process.pid)
            server.process.wait()
        wait_until(lambda: not marked_processes(mark), "all its processes have ended")
    wait_until(lambda: shared_memory() <= before, "no shared memory is left")


@counts(60)
@pytest.mark.timeout(1200)
def test_servers_killed_while_they_start(tmp_path: Path, mark: str, count: int) -> None:
    before = shared_memory()
    chance = random.Random(13)
    for _ in range(count):
        command = [sys.executable, "-m", "app", "serve", "--port", "0"]
        process = subprocess.Popen(
            [*command, "--data-dir", str(tmp_path)],
            env={**os.environ, **ENVIRONMENT, MARK: mark},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(0.3 + chance.random() * 2)  # before, during and after the start of its executor
        process.kill()
        process.wait()
        wait_until(lambda: not marked_processes(mark), "all its processes have ended")
    wait_until(lambda: shared_memory() <= before, "no shared memory is left")
    server = start_server(tmp_path, environment={**ENVIRONMENT, MARK: mark})
    server.process.terminate()
    assert server.process.wait(timeout=30) in (0, -signal.SIGTERM)
    wait_until(lambda: not marked_processes(mark), "all its processes have ended")
