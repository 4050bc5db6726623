"""Processes stopped past the lease of their job: another attempt takes it, the one that wakes up
changes nothing, and the fit ends with the bits of an undisturbed one."""

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
ROUNDS = [1, pytest.param(10, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the fit ends with when nothing happens to it."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with running_server(folder, environment=SETTINGS) as server, Client(server.url) as client:
        make_dataset(client, folder)
        assert client.wait(submit(client, "net", EPOCHS))["status"] == "succeeded"
        return ending(client, "net", EPOCHS)


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[ServerProcess]:
    """The server that is to be stopped."""
    with running_server(tmp_path / "var", environment=SETTINGS) as server:
        yield server


@pytest.fixture
def watcher(tmp_path: Path, sleeper: ServerProcess) -> Iterator[Client]:
    """A client of another server on the same directory, which takes over what is lost."""
    settings = SETTINGS | {"MODSERVE_DEVICES": '["cpu(1)"]'}
    with (
        running_server(tmp_path / "var", environment=settings) as server,
        Client(server.url) as client,
    ):
        yield client


def stop_past_the_lease(pids: list[int], is_lost: Callable[[], bool]) -> None:
    """Stop processes until their job is taken from them, then let them go on.

    A server that is stopped in the middle of a transaction keeps SQLite's lock, and no other can
    write until it wakes; then it is woken and stopped at another moment.
    """
    for _ in range(20):
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            wait_until(is_lost, "the lease is over", seconds=6 * LEASE_SECONDS)
            return
        except AssertionError:
            continue
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
    pytest.fail("no other server took the job")


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("who", ["server", "server and executor"])
def test_stopped_past_its_lease(
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
            name = f"net{number}"
            job = submit(client, name, EPOCHS)
            wait_until(lambda name=name: bool(client.checkpoints(name)), "a first checkpoint")
            pids = [sleeper.process.pid]
            if who == "server and executor":
                pids.append(executor_pid(client))
            stop_past_the_lease(pids, lambda job=job: watcher.job(job)["status"] != "running")
            done = client.wait(job)
            assert done["status"] == "succeeded"
            assert done["attempt"] >= 2
            assert ending(client, name, EPOCHS) == undisturbed
