"""``kill -9`` in the middle of training: the fit resumes and ends with the same bits."""

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.cli.demo.tour import MNIST
from app.client import Client
from app.client.local_server import ServerProcess, running_server
from served import lenet
from served.processes import ENVIRONMENT, executor_pid, is_running, kill, wait_until

FIT = {"epochs": 2, "checkpoint": {"epochs": 1, "batches": 7}}


@pytest.fixture(scope="module")
def undisturbed(client: Client) -> dict[str, str]:
    """Digests of the results of an undisturbed training."""
    lenet.create(client, "lenet")
    job = client.wait(lenet.fit(client, "lenet", **FIT))
    assert job["status"] == "succeeded"
    return digests(client)


def digests(client: Client) -> dict[str, str]:
    newest = client.checkpoints("lenet")[0]
    assert newest["tag"] == "2"
    return {
        name: newest["files"][name]["sha256"] for name in ("lenet-0002.params", "lenet-0002.states")
    }


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "server"


@pytest.fixture
def victim(data_dir: Path) -> Iterator[ServerProcess]:
    """A server that the test may kill."""
    with running_server(data_dir, environment=ENVIRONMENT) as server:
        yield server


def begin(client: Client) -> int:
    """Start a fit; return its job's id in the middle of the first epoch."""
    client.put_dataset("mnist", MNIST)
    lenet.create(client, "lenet")
    job = lenet.fit(client, "lenet", **FIT)
    saved = (one["data"] for one in client.job_events(job) if one["type"] == "checkpoint")
    next(one for one in saved if one["batch"] >= 14)
    return job


def is_status(url: str, status: int) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=5).status_code == status
    except httpx.TransportError:
        return False


class Caller:
    """Requests one prediction after another in a thread, and records the answers."""

    def __init__(self, url: str) -> None:
        self.answers: list[httpx.Response] = []
        self._url = url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Caller":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def statuses(self) -> list[int]:
        return [answer.status_code for answer in self.answers]

    def _run(self) -> None:
        body = {"inputs": {"data": lenet.digits(1)[0].tolist()}}
        with httpx.Client(base_url=self._url, timeout=30) as http:
            while not self._stop.is_set():
                self.answers.append(http.post("/v1/modules/lenet/predict", json=body))


def test_killed_executor(victim: ServerProcess, undisturbed: dict[str, str]) -> None:
    with Client(victim.url) as client:
        job = begin(client)
        first = executor_pid(client)
        with Caller(victim.url) as caller:
            wait_until(lambda: 200 in caller.statuses(), "a prediction before the death")
            kill(first)
            wait_until(lambda: is_status(victim.url, 503), "not ready without an executor")
            wait_until(lambda: is_status(victim.url, 200), "ready again")
            before = len(caller.answers)
            wait_until(lambda: 200 in caller.statuses()[before + 1 :], "a prediction afterwards")
        assert set(caller.statuses()) == {200, 503}
        for answer in caller.answers:
            if answer.status_code == 503:
                assert answer.headers["retry-after"]
                assert answer.json()["code"] == "executor_gone"
        assert executor_pid(client) != first
        assert client.module("lenet")["generation"] == 2
        assert client.wait(job)["status"] == "succeeded"
        assert client.job(job)["attempt"] == 2
        assert digests(client) == undisturbed


def test_killed_server(victim: ServerProcess, data_dir: Path, undisturbed: dict[str, str]) -> None:
    with Client(victim.url) as client:
        job = begin(client)
        executor = executor_pid(client)
        kill(victim.process.pid)
        victim.process.wait()
        wait_until(lambda: not is_running(executor), "the executor ends with its server")
    with running_server(data_dir, environment=ENVIRONMENT) as again, Client(again.url) as client:
        assert client.wait(job)["status"] == "succeeded"
        assert client.job(job)["attempt"] == 2
        assert digests(client) == undisturbed
        assert client.predict("lenet", data=lenet.digits(3)[0])["softmax_output"].shape == (3, 10)
        executor = executor_pid(client)
    assert not is_running(executor)


def test_a_server_that_shuts_down_cleanly_resumes_too(
    data_dir: Path, undisturbed: dict[str, str]
) -> None:
    with running_server(data_dir, environment=ENVIRONMENT) as first, Client(first.url) as client:
        job = begin(client)
        executor = executor_pid(client)
    assert not is_running(executor)
    with running_server(data_dir, environment=ENVIRONMENT) as again, Client(again.url) as client:
        assert client.wait(job)["status"] == "succeeded"
        assert digests(client) == undisturbed
