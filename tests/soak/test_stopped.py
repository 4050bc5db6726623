"""Processes stopped (SIGSTOP) until the lease of their job has expired.

Another attempt takes over the job, the one that wakes up changes nothing, and the fit ends with the
same bits as an undisturbed one.
"""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from app.client import Client
from app.client.local_server import ServerProcess, running_server
from served.processes import ENVIRONMENT, executor_pid, wait_until
from served.trainings import ending, make_dataset, submit

LEASE_SECONDS = 1.0
SETTINGS = ENVIRONMENT | {"MODSERVE_LEASE_SECONDS": str(LEASE_SECONDS)}
EPOCHS = 20
ROUNDS = [1, pytest.param(10, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The result of the fit when undisturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with running_server(folder, environment=SETTINGS) as server, Client(server.url) as client:
        make_dataset(client, folder)
        assert client.wait(submit(client, "net", EPOCHS))["status"] == "succeeded"
        return ending(client, "net", EPOCHS)


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[ServerProcess]:
    """The server to be stopped."""
    with running_server(tmp_path / "var", environment=SETTINGS) as server:
        yield server


@pytest.fixture
def watcher(tmp_path: Path, sleeper: ServerProcess) -> Iterator[Client]:
    """A client of another server on the same directory, which takes over lost jobs."""
    settings = SETTINGS | {"MODSERVE_DEVICES": '["cpu(1)"]'}
    with (
        running_server(tmp_path / "var", environment=settings) as server,
        Client(server.url) as client,
    ):
        yield client


def stop_between_transactions(pids: list[int], database: Path) -> None:
    """Stop processes while none of them holds SQLite's lock.

    A server that is stopped in the middle of a transaction keeps its job: no other can write.
    """

    def have_stopped() -> bool:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            with closing(sqlite3.connect(database, timeout=0, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                other.execute("ROLLBACK")
        except sqlite3.OperationalError:
            continue_all(pids)
            return False
        return True

    wait_until(have_stopped, "the server is between two transactions")


def continue_all(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


def lose_a_fit(
    client: Client, watcher: Client, name: str, pids: list[int], database: Path
) -> tuple[str, int]:
    """Start a fit and stop processes until it is taken from them; return its module and job id."""
    job = submit(client, name, EPOCHS)
    wait_until(lambda: bool(client.checkpoints(name)), "a first checkpoint")
    stop_between_transactions(pids, database)
    try:
        wait_until(lambda: watcher.job(job)["status"] == "queued", "the lease has expired")
    finally:
        continue_all(pids)
    return name, job


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("who", ["server", "server and executor"])
def test_processes_stopped_past_their_lease_change_nothing(
    sleeper: ServerProcess,
    watcher: Client,
    undisturbed: dict[str, Any],
    tmp_path: Path,
    who: str,
    rounds: int,
) -> None:
    with Client(sleeper.url) as client:
        make_dataset(client, tmp_path)
        for number in range(rounds):
            pids = [sleeper.process.pid]
            if who == "server and executor":
                pids.append(executor_pid(client))
            database = tmp_path / "var" / "modserve.db"
            module, job = lose_a_fit(client, watcher, f"net{number}", pids, database)
            done = client.wait(job)
            assert done["status"] == "succeeded"
            assert done["attempt"] >= 2
            assert ending(client, module, EPOCHS) == undisturbed
