"""A death between renaming a checkpoint and reporting it loses no trained model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from app.client import Client
from app.client.local_server import ServerProcess, running_server
from served import lenet
from served.processes import ENVIRONMENT, kill, wait_until

TESTS = Path(__file__).parents[2]


@contextmanager
def dying(data_dir: Path, host: str) -> Iterator[ServerProcess]:
    program = ("-m", "served.dying_host", f"served.dying_host:{host}")
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{TESTS}:{TESTS.parent}"}
    with running_server(data_dir, environment=environment, program=program) as server:
        yield server


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lenet.few_digits(tmp_path_factory.mktemp("few"), 640)


@pytest.fixture(scope="module")
def expected(client: Client, few: Path) -> dict[int, np.ndarray]:
    """What undisturbed trainings of one and two epochs predict."""
    found = {}
    for epochs in (1, 2):
        assert client.wait(begin(client, few, epochs))["status"] == "succeeded"
        found[epochs] = predicted(client)
        client.delete_module("lenet")
    return found


def predicted(client: Client) -> np.ndarray:
    return client.predict("lenet", data=lenet.digits(5)[0])["softmax_output"]


def pid(client: Client) -> int | None:
    """Return the executor's process id, None while none answers."""
    (executor,) = client.request("GET", "/v1/executors").json()["items"]
    return executor["pid"] if executor["state"] == "ready" else None


def begin(client: Client, few: Path, epochs: int) -> int:
    client.put_dataset("few", few)
    lenet.create(client, "lenet")
    return lenet.fit(client, "lenet", dataset="few", epochs=epochs)


def check(client: Client, job: int, epochs: int, expected: np.ndarray) -> None:
    """Check that the trained module is there, now and after another death of the executor."""
    assert client.wait(job)["status"] == "succeeded"
    assert client.job(job)["attempt"] == epochs + 1, "it died at each checkpoint"
    module = client.module("lenet")
    assert (module["params"], module["checkpoint"]) == ("checkpoint", str(epochs))
    assert next(one["tag"] for one in client.checkpoints("lenet")) == str(epochs)
    np.testing.assert_array_equal(predicted(client), expected)
    first = pid(client)
    assert first is not None
    kill(first)
    wait_until(lambda: pid(client) not in (first, None), "another executor")
    np.testing.assert_array_equal(predicted(client), expected)


@pytest.mark.parametrize("epochs", [1, 2])
def test_an_executor_dies_after_the_rename(
    tmp_path: Path, few: Path, expected: dict[int, np.ndarray], epochs: int
) -> None:
    with dying(tmp_path, "ExecutorDies") as server, Client(server.url) as client:
        check(client, begin(client, few, epochs), epochs, expected[epochs])


@pytest.mark.parametrize("epochs", [1, 2])
def test_the_server_dies_after_the_rename(
    tmp_path: Path, few: Path, expected: dict[int, np.ndarray], epochs: int
) -> None:
    with dying(tmp_path, "ServerDies") as server, Client(server.url) as client:
        job = begin(client, few, epochs)
        server.process.wait(timeout=60)
    for _ in range(epochs - 1):
        with dying(tmp_path, "ServerDies") as server:
            server.process.wait(timeout=60)
    with running_server(tmp_path, environment=ENVIRONMENT) as server, Client(server.url) as client:
        check(client, job, epochs, expected[epochs])


def versions(client: Client) -> dict[int, str]:
    """The ETag of each version's files."""
    found = [client.checkpoint("lenet", one["tag"]) for one in client.checkpoints("lenet")]
    return {int(one["tag"]): one["etag"] for one in found}


def test_versions_of_earlier_fits_stay_when_an_executor_dies_in_later_ones(
    tmp_path: Path, few: Path
) -> None:
    with dying(tmp_path, "ExecutorDies") as server, Client(server.url) as client:
        before: dict[int, str] = {}
        for number in (1, 2, 3):
            job = (
                begin(client, few, 1)
                if number == 1
                else lenet.fit(client, "lenet", dataset="few", epochs=1)
            )
            done = client.wait(job)
            assert (done["status"], done["attempt"]) == ("succeeded", 2)
            assert done["versions"] == {"first": number, "last": number}
            assert done["result"] is not None
            assert done["result"]["checkpoint"] == str(number)
            after = versions(client)
            assert sorted(after) == list(range(1, number + 1))
            assert {tag: after[tag] for tag in before} == before
            before = after


def test_versions_of_earlier_fits_stay_when_the_server_dies_in_a_later_one(
    tmp_path: Path, few: Path
) -> None:
    with running_server(tmp_path, environment=ENVIRONMENT) as server, Client(server.url) as client:
        assert client.wait(begin(client, few, 1))["status"] == "succeeded"
        before = versions(client)
    with dying(tmp_path, "ServerDies") as server, Client(server.url) as client:
        job = lenet.fit(client, "lenet", dataset="few", epochs=1, checkpoint={"keep": 1})
        later = lenet.fit(client, "lenet", dataset="few", epochs=1)
        server.process.wait(timeout=60)
    with running_server(tmp_path, environment=ENVIRONMENT) as server, Client(server.url) as client:
        assert client.wait(job)["status"] == client.wait(later)["status"] == "succeeded"
        assert [client.job(one)["versions"] for one in (job, later)] == [
            {"first": number, "last": number} for number in (2, 3)
        ]
        assert sorted(versions(client)) == [2, 3], "the first fit's was removed as was asked for"
        assert before.keys() == {1}
        assert client.module("lenet")["checkpoint"] == "3"
        client.load("lenet", 2)
        client.delete_checkpoint("lenet", 3)
        last = client.wait(lenet.fit(client, "lenet", dataset="few", epochs=1))
        assert last["versions"] == {"first": 4, "last": 4}
