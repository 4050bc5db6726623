"""A disk that fills up at every write in turn.

Nothing is lost, nothing is left half written, and once there is space again, everything works.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.client import Client, ClientError
from app.client.local_server import ServerProcess, running_server
from served.perceptron import BATCH, FEATURES, perceptron
from served.processes import ENVIRONMENT, wait_until
from served.small_disk import mounted_disk
from served.trainings import examples

KIB = 1024
SHORT = (0, 24, 96)
LONG = (*range(0, 64, 4), *range(64, 512, 32))
FAIR = {200, 201, 202, 204, 404, 409, 422, 503, 507}
"""Answers while the disk is full: success, no space, or something missing that had no space."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 24 MiB."""
    with mounted_disk(tmp_path, 24) as disk:
        yield disk


@pytest.fixture
def server(disk: Path, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server with its data on the small disk, and its log elsewhere."""
    data = disk / "var"
    environment = ENVIRONMENT | {"MODSERVE_DATA_DIR": str(data)}
    data.mkdir()
    (data / "server.log").symlink_to(tmp_path / "server.log")
    with running_server(data, environment=environment) as server:
        yield server


class Filler:
    """A file that takes all of a disk but a given number of bytes."""

    def __init__(self, disk: Path) -> None:
        self._path = disk / "filler"

    def leave(self, free: int) -> None:
        """Fill the disk, leaving this many bytes."""
        block = bytes(4 * KIB)
        with self._path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(block):
                pass
        size = self._path.stat().st_size
        with self._path.open("r+b") as file:
            file.truncate(max(0, size - free))

    def remove(self) -> None:
        """Free the disk again."""
        self._path.unlink(missing_ok=True)


def steps(name: str, folder: Path) -> list[Callable[[Client], Any]]:
    """Return all calls that write something, in an order in which each can succeed."""
    np.savez(folder / "toy.npz", **examples())
    data = [{"name": "data", "shape": [BATCH, FEATURES]}]
    labels = [{"name": "softmax_label", "shape": [BATCH]}]
    fit = {
        "dataset": f"toy-{name}",
        "epochs": 3,
        "batch_size": BATCH,
        "checkpoint": {"epochs": 1, "batches": 10},
        "monitor": {"interval": 5},
        "optimizer": {"name": "sgd", "options": {"learning_rate": 0.05}},
    }
    export = {"dataset": f"toy-{name}", "batch_size": BATCH, "output": f"outputs-{name}"}
    return [
        lambda client: client.put_dataset(f"toy-{name}", folder / "toy.npz"),
        lambda client: client.create_module(name, perceptron().tojson()),
        lambda client: client.bind(name, data, labels),
        lambda client: client.init_params(name, "xavier", seed=3),
        lambda client: client.save_checkpoint(name, 0),
        lambda client: client.set_labels(name, "softmax_output", ["a", "b", "c"]),
        lambda client: client.promote(name, 0),
        lambda client: client.set_version_label(name, "first", 0),
        lambda client: client.roll_back(name),
        lambda client: client.fit(name, **fit),
        lambda client: client.predict_dataset(name, **export),
        lambda client: client.predict(name, data=examples()["data"][:BATCH]),
    ]


def attempt(client: Client, step: Callable[[Client], Any]) -> int:
    """Take a step; return the status of its refusal, or 200."""
    statuses: list[int] = []
    client._http.event_hooks["response"] = [lambda answer: statuses.append(answer.status_code)]
    try:
        step(client)
    except ClientError:
        pass
    finally:
        client._http.event_hooks["response"] = []
    assert set(statuses) <= FAIR, statuses
    return statuses[-1]


@pytest.mark.parametrize(
    "room", [SHORT, pytest.param(LONG, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])]
)
def test_a_full_disk_loses_nothing(
    server: ServerProcess, disk: Path, tmp_path: Path, room: tuple[int, ...]
) -> None:
    filler = Filler(disk)
    with Client(server.url) as client:
        make_all(client, "first", tmp_path)
        before = client.predict("first", data=examples()["data"][:BATCH])["softmax_output"]
        refused = 0
        for free in room:
            name = f"net{free}"
            for step in steps(name, tmp_path):
                filler.leave(free * KIB)
                refused += attempt(client, step) == 507
            after = client.predict("first", data=examples()["data"][:BATCH])["softmax_output"]
            np.testing.assert_array_equal(after, before)
            filler.remove()
            wait_until(client.is_ready, "the server is ready once there is space")
            for job in client.jobs(module=name):
                ended = client.wait(job["id"])
                assert ended["status"] == "succeeded" or ended["error"]["code"] == "storage_full"
            whole = f"whole{free}"
            make_all(client, whole, tmp_path)
            for gone in (name, whole):
                remove(client, gone)
        assert refused
        assert [row["name"] for row in client.modules()] == ["first"]


def make_all(client: Client, name: str, folder: Path) -> None:
    """Take all steps, each of which must succeed, and wait for the fit."""
    for step in steps(name, folder):
        assert attempt(client, step) < 300
    for job in client.jobs(module=name):
        assert client.wait(job["id"])["status"] == "succeeded"


def remove(client: Client, name: str) -> None:
    """Delete a module, its dataset and its unfinished jobs, where they exist."""
    for job in client.jobs(module=name):
        if job["status"] in ("queued", "running", "paused"):
            client.cancel(job["id"])
            client.wait(job["id"])
    if name in [row["name"] for row in client.modules()]:
        client.delete_module(name)
    kept = [row["name"] for row in client.datasets()]
    for dataset in (f"toy-{name}", f"outputs-{name}"):
        if dataset in kept:
            client.delete_dataset(dataset)
