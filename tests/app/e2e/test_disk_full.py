"""A fit whose disk fills up fails within seconds or waits for space; the server goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import core as mx
from app.cli.demo.tour import MNIST
from app.client import Client
from app.client.local_server import running_server
from served.lenet import create, fit
from served.perceptron import BATCH
from served.processes import ENVIRONMENT, wait_until
from served.small_disk import fill, mounted_disk
from served.trainings import ending, make_dataset

SECONDS = 30


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 32 MiB."""
    with mounted_disk(tmp_path, 32) as disk:
        yield disk


@pytest.mark.parametrize("retries", [0, 50])
def test_without_space_a_fit_fails_or_waits_and_others_are_served(
    small_disk: Path, tmp_path: Path, retries: int
) -> None:
    data = small_disk / "var"
    data.mkdir()
    (data / "server.log").symlink_to(tmp_path / "server.log")
    with running_server(data, environment=ENVIRONMENT) as server, Client(server.url) as client:
        client.put_dataset("mnist", MNIST)
        create(client, "lenet")
        cadence = {"epochs": 1, "batches": 10, "keep": 1}
        job_id = fit(client, "lenet", epochs=2, checkpoint=cadence, limits={"max_retries": retries})
        wait_until(lambda: bool(client.checkpoints("lenet")), "a first checkpoint")
        filler = fill(small_disk)
        if retries == 0:
            wait_until(lambda: client.job(job_id)["status"] == "failed", "the job fails", SECONDS)
            assert client.job(job_id)["error"]["code"] == "storage_full"
        else:
            wait_until(lambda: client.job(job_id)["retries"] > 0, "the job waits", SECONDS)
            assert client.job(job_id)["setback"]["code"] == "storage_full"
        assert client.is_ready()
        assert client.modules()[0]["name"] == "lenet"
        filler.unlink()
        if retries == 0:
            client.retry(job_id)
        assert client.wait(job_id)["status"] == "succeeded"
        said = [e["data"].get("message", "") for e in _events(client, job_id)]
        assert any(message.startswith("going on from checkpoint") for message in said)


def wide_network() -> mx.sym.Symbol:
    """Return a network whose checkpoint is larger than the database's reserve."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=60_000, name="fc1")
    net = mx.sym.FullyConnected(mx.sym.tanh(net), num_hidden=3, name="fc2")
    return mx.sym.SoftmaxOutput(net, name="softmax")


def test_a_fit_that_waits_for_space_before_its_first_checkpoint_starts_over(
    small_disk: Path, tmp_path: Path
) -> None:
    data = small_disk / "var"
    data.mkdir()
    (data / "server.log").symlink_to(tmp_path / "server.log")

    def begin(name: str) -> int:
        client.create_module(name, wide_network().tojson())
        job = client.fit(
            name,
            dataset="toy",
            epochs=6,
            batch_size=BATCH,
            seed=5,
            optimizer={"name": "sgd", "options": {"learning_rate": 0.01}},
            initializer={"initializer": "xavier", "seed": 4},
            checkpoint={"epochs": 6},
            limits={"max_retries": 50},
        )
        return int(job["id"])

    with running_server(data, environment=ENVIRONMENT) as server, Client(server.url) as client:
        make_dataset(client, tmp_path)
        client.wait(begin("undisturbed"))
        job_id = begin("net")
        wait_until(lambda: (client.job(job_id)["progress"] or {}).get("epoch"), "it trains")
        filler = fill(small_disk)
        wait_until(lambda: client.job(job_id)["retries"] > 0, "the job waits", SECONDS)
        filler.unlink()
        assert client.wait(job_id)["status"] == "succeeded"
        assert ending(client, "net", 6) == ending(client, "undisturbed", 6)


def _events(client: Client, job_id: int) -> list[dict[str, object]]:
    """Return the events so far of a job that may still be running."""
    events = []
    last = client.request("GET", f"/v1/jobs/{job_id}").json()["updated_at"]
    for event in client.job_events(job_id):
        events.append(event)
        if event["created_at"] >= last:
            break
    return events
