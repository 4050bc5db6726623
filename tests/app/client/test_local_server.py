"""Local server processes: started, stopped, and failing to start."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx
import pytest

from app.client import Client
from app.client.local_server import running_server, start_server
from served.processes import ENVIRONMENT, executor_pid, is_running


def test_a_server_chooses_a_free_port(tmp_path: Path) -> None:
    with running_server(tmp_path, environment=ENVIRONMENT) as server:
        command = Path(f"/proc/{server.process.pid}/cmdline").read_text().split("\0")
        assert command[command.index("--port") + 1] == "0"
        assert httpx.get(f"{server.url}/readyz").status_code == 200


def test_a_server_is_ready_in_the_block_and_stops_after_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with running_server(tmp_path, port=port, environment=ENVIRONMENT) as server:
        assert server.url == f"http://127.0.0.1:{port}"
        with Client(server.url) as client:
            assert client.is_ready()
            executor = executor_pid(client)
        assert (tmp_path / "modserve.db").exists()
    assert server.process.returncode is not None
    assert not is_running(executor)
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url)


def test_a_server_that_cannot_start_reports_why(tmp_path: Path) -> None:
    environment = {**ENVIRONMENT, "MODSERVE_LEASE_SECONDS": "-1"}
    with pytest.raises(RuntimeError, match=r"did not start:\n(.|\n)*MODSERVE_LEASE_SECONDS"):
        start_server(tmp_path, environment=environment)


def test_a_server_that_never_becomes_ready_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="did not start"):
        start_server(tmp_path, environment=ENVIRONMENT, start_seconds=0.01)
