"""A browser, and a server that trains and predicts for it."""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from app.cli.demo.tour import MNIST, images
from app.client import Client
from app.client.local_server import ServerProcess, running_server
from served import lenet, padded_sums
from served.keys import add_key
from served.node import dashboard_copy
from served.processes import ENVIRONMENT, wait_until


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The system's Chromium, headless."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        assert "CHROMIUM_REQUIRED" not in os.environ, "no chromium; Debian: apt install chromium"
        pytest.skip("no chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def dashboard(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A copy of the dashboard's folder with its packages, shared by all test processes."""
    base = tmp_path_factory.getbasetemp()
    root = base if worker_id == "master" else base.parent
    with (root / "dashboard.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return dashboard_copy(root / "dashboard")


@pytest.fixture(scope="session")
def axe(dashboard: Path) -> str:
    """The source of axe-core, which finds accessibility problems."""
    return (dashboard / "node_modules" / "axe-core" / "axe.min.js").read_text()


@dataclass(frozen=True)
class Lab:
    """A server that is training and predicting.

    Attributes:
        server: the server.
        finished, running, paused, cancelled: ids of jobs with that status.
        admin, reader, asker: keys with scope admin, read and infer.
    """

    server: ServerProcess
    finished: int
    running: int
    paused: int
    cancelled: int
    admin: str
    reader: str
    asker: str


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A server with keys that is training and predicting, and has finished jobs."""
    folder = tmp_path_factory.mktemp("lab")
    admin, reader = add_key(folder, "lab", "admin"), add_key(folder, "guest", "read")
    asker = add_key(folder, "shop", "infer")
    with (
        running_server(folder, environment=ENVIRONMENT) as server,
        Client(server.url, key=admin) as client,
    ):
        client.put_dataset("mnist", MNIST)
        for name in ("lenet", lenet.LONG_NAME):
            lenet.create(client, name)
        padded_sums.create(client, "sentences")
        padded_sums.ask(client, {3: 12, 5: 4, 7: 3, 8: 1}, "sentences")
        held_out = {name: images("test")[name] for name in ("dataset", "inputs")}
        monitor = {"interval": 5, "pattern": "*"}
        finished = lenet.fit(client, "lenet", validation=held_out, monitor=monitor)
        client.wait(finished)
        # Without an optimizer of its own, the fit uses the one that the first fit left.
        running = lenet.fit(client, "lenet", epochs=10_000, validation=held_out, optimizer=None)
        others = [lenet.fit(client, lenet.LONG_NAME, epochs=10_000) for _ in range(2)]
        client.pause(others[0])
        client.cancel(others[1])
        states = ["running", "paused", "cancelled"]
        wait_until(lambda: states_of(client, running, *others) == states, f"jobs are {states}")
        ending = threading.Event()
        asking = threading.Thread(target=ask, args=(server.url, admin, ending))
        asking.start()
        try:
            yield Lab(server, finished, running, *others, admin=admin, reader=reader, asker=asker)
        finally:
            ending.set()
            asking.join()
            for job in (running, others[0]):
                client.cancel(job)
                client.wait(job)


def states_of(client: Client, *jobs: int) -> list[str]:
    return [client.job(job)["status"] for job in jobs]


def ask(url: str, key: str, ending: threading.Event) -> None:
    """Send predictions one after another."""
    digits, _ = lenet.digits(1)
    body = {"inputs": {"data": digits.tolist()}}
    with Client(url, key=key) as client:
        while not ending.wait(0.05):
            client.request("POST", "/v1/modules/lenet/predict", json=body)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """An empty server without keys."""
    with running_server(tmp_path_factory.mktemp("server"), environment=ENVIRONMENT) as server:
        yield server


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    """A client of that server, which is emptied afterwards."""
    with Client(server.url) as client:
        yield client
        for module in client.modules():
            client.delete_module(module["name"])


@pytest.fixture(scope="module")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for screenshots: SCREENSHOTS, else a temporary one."""
    named = os.environ.get("SCREENSHOTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
