"""Processes stopped (SIGSTOP) until the lease of their job has expired.

Another attempt takes over the job, the one that wakes up changes nothing, and the fit ends with the
same bits as an undisturbed one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
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
TRIES = 10
"""A server stopped in the middle of a transaction keeps its job; then another fit is tried."""
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


def stopped_past_the_lease(pids: list[int], is_lost: Callable[[], bool]) -> bool:
    """Stop processes until their job is taken from them, then continue them.

    Return False if the job was not taken: a server that is stopped in the middle of a transaction
    keeps SQLite's lock, and no other server can write until it wakes up.
    """
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(is_lost, "the lease has expired", seconds=6 * LEASE_SECONDS)
    except AssertionError:
        return False
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    return True


def lose_a_fit(client: Client, watcher: Client, name: str, pids: list[int]) -> tuple[str, int]:
    """Start fits until one is taken from stopped processes; return its module and job id."""
    for attempt in range(TRIES):
        module = f"{name}-{attempt}"
        job = submit(client, module, EPOCHS)
        wait_until(lambda module=module: bool(client.checkpoints(module)), "a first checkpoint")
        if stopped_past_the_lease(pids, lambda job=job: watcher.job(job)["status"] == "queued"):
            return module, job
        client.wait(job)
    pytest.fail("no job was taken from the stopped processes")


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
            module, job = lose_a_fit(client, watcher, f"net{number}", pids)
            done = client.wait(job)
            assert done["status"] == "succeeded"
            assert done["attempt"] >= 2
            assert ending(client, module, EPOCHS) == undisturbed
