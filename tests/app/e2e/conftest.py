"""A real server process with the MNIST digits, and clients of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli.demo.tour import MNIST
from app.client import Client
from app.client.local_server import ServerProcess, running_server
from served.processes import ENVIRONMENT


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose executor has one thread, so that results are reproducible."""
    folder = tmp_path_factory.mktemp("server")
    with running_server(folder, environment=ENVIRONMENT) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[Client]:
    """A client of the server, which has the dataset ``mnist``."""
    with Client(server.url) as client:
        client.put_dataset("mnist", MNIST)
        yield client


@pytest.fixture
def golden() -> Path:
    """The folder with MXNet's results."""
    return Path(__file__).parents[2] / "oracle" / "golden"
