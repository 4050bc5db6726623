"""``kill -9`` of the executor, the server or both, at random or at the last checkpoint's rename.

Every fit ends with the same bits as an undisturbed one, and its module predicts with them.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.client import Client
from app.client.local_server import running_server, start_server
from served.processes import ENVIRONMENT, executor_pid, is_running, kill, wait_until
from served.trainings import ending, final_directory, make_dataset, submit

SETTINGS = ENVIRONMENT | {"MODSERVE_JOB_MAX_ATTEMPTS": "50"}
LONG = pytest.param(110, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])


class Victim:
    """A server that is killed and restarted on the same directory and port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = start_server(folder, environment=SETTINGS)
        self.client = Client(self.server.url)
        self.kills = 0

    def kill_executor(self) -> None:
        """Kill the executor's process, if there is one at the moment."""
        pids = [row["pid"] for row in self.client.executors() if row.get("pid")]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # killed before, but still listed
                kill(pid)
                self.kills += 1

    def kill_server(self) -> None:
        """Kill the server, wait for its executor to end, and restart it."""
        executors = [row["pid"] for row in self.client.executors() if row.get("pid")]
        kill(self.server.process.pid)
        self.kills += 1
        self.server.process.wait()
        for pid in executors:
            wait_until(lambda pid=pid: not is_running(pid), "the executor ends with its server")
        self._start_again()

    def kill_both(self) -> None:
        """Kill executor and server at once."""
        executors = [row["pid"] for row in self.client.executors() if row.get("pid")]
        for pid in [*executors, self.server.process.pid]:
            kill(pid)
        self.kills += 1
        self.server.process.wait()
        self._start_again()

    def close(self) -> None:
        """Stop the server cleanly."""
        self.client.close()
        self.server.process.terminate()
        self.server.process.wait(timeout=60)

    def _start_again(self) -> None:
        port = int(self.server.url.rpartition(":")[2])
        self.server = start_server(self.folder, port=port, environment=SETTINGS)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The result of the fit when undisturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with running_server(folder, environment=SETTINGS) as server, Client(server.url) as client:
        make_dataset(client, folder)
        assert client.wait(submit(client, "net"))["status"] == "succeeded"
        return ending(client, "net")


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Victim]:
    """A server to be killed, which has the dataset."""
    victim = Victim(tmp_path / "server")
    make_dataset(victim.client, tmp_path)
    yield victim
    victim.close()


def is_over(victim: Victim, job: int) -> bool:
    return victim.client.job(job)["status"] in ("succeeded", "failed", "cancelled")


@pytest.mark.parametrize("kills", [4, LONG])
def test_random_kills(victim: Victim, undisturbed: dict[str, Any], kills: int) -> None:
    chance = random.Random(kills)
    for fit in itertools.count():
        name = f"net{fit}"
        job = submit(victim.client, name)
        while not is_over(victim, job) and victim.kills < kills:
            time.sleep(chance.uniform(0.02, 1.0))
            chance.choice([victim.kill_executor, victim.kill_server, victim.kill_both])()
        assert victim.client.wait(job)["status"] == "succeeded"
        assert ending(victim.client, name) == undisturbed, f"fit {fit}, kill {victim.kills}"
        if victim.kills >= kills:
            break
    victim.kill_both()
    assert all(ending(victim.client, f"net{n}") == undisturbed for n in range(fit + 1))


@pytest.mark.parametrize("rounds", [2, pytest.param(20, marks=LONG.marks)])
def test_kills_at_the_final_rename(
    victim: Victim, undisturbed: dict[str, Any], rounds: int
) -> None:
    for number in range(rounds):
        name = f"net{number}"
        job = submit(victim.client, name)
        at_rename(victim, name, [victim.kill_executor, victim.kill_server][number % 2])
        assert victim.client.wait(job)["status"] == "succeeded"
        assert ending(victim.client, name) == undisturbed
        victim.kill_both()
        assert ending(victim.client, name) == undisturbed


def at_rename(victim: Victim, name: str, strike: Callable[[], None]) -> None:
    """Call ``strike`` at the moment when the last checkpoint has been renamed into place."""
    final = final_directory(victim.folder, name)
    executor_pid(victim.client)  # opens the connection that ``strike`` needs at once
    deadline = time.monotonic() + 120
    while not final.exists():
        assert time.monotonic() < deadline, f"no checkpoint {final}"
    strike()
