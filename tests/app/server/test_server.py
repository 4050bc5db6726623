"""The server as a process: failing to start, and shutting down."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from app.client import Client
from app.client.local_server import running_server
from app.server import listening_sockets
from served import lenet
from served.processes import ENVIRONMENT, wait_until
from served.sockets import connect, head, read_answer


def start(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a server that is expected to fail at startup."""
    return subprocess.run(
        [sys.executable, "-m", "app", "serve", "--port", "0", "--data-dir", str(folder)],
        env={**os.environ, **ENVIRONMENT, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def assert_one_line(ended: subprocess.CompletedProcess[str], text: str) -> None:
    """Check that the server could not start and said why in one line with this text."""
    assert ended.returncode == 3
    (line,) = [one for one in ended.stderr.splitlines() if "cannot start" in one]
    assert text in line
    assert "Traceback" not in ended.stderr


def test_a_missing_device_is_reported_in_one_line(tmp_path: Path) -> None:
    ended = start(tmp_path, MODSERVE_DEVICES=json.dumps(["gpu(99)"]))
    assert_one_line(ended, "gpu(99)")


def test_a_setting_the_engine_refuses_is_reported_in_one_line(tmp_path: Path) -> None:
    old_processor = {"MODSERVE_MATH": "bfloat16", "ONEDNN_MAX_CPU_ISA": "AVX2"}
    ended = start(tmp_path, **old_processor)
    assert_one_line(ended, "MODSERVE_MATH is 'bfloat16', but this processor")


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("nonsense", "expected sqlite:///PATH or postgresql+psycopg://HOST/NAME"),
        ("sqlite:////nowhere/at/all.db", "unable to open database file; set MODSERVE_DATABASE_URL"),
    ],
)
def test_an_unusable_database_is_reported_in_one_line(tmp_path: Path, url: str, text: str) -> None:
    assert_one_line(start(tmp_path, MODSERVE_DATABASE_URL=url), text)


def test_an_invalid_data_directory_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert_one_line(start(tmp_path / "file"), "File exists")


def test_a_second_server_with_the_same_executors_does_not_start(tmp_path: Path) -> None:
    with running_server(tmp_path, environment=ENVIRONMENT) as first:
        assert_one_line(start(tmp_path), f"process id {first.process.pid}")
        with Client(first.url) as client:
            assert client.is_ready()


PATIENT = ENVIRONMENT | {"MODSERVE_DRAIN_SECONDS": "600"}
"""A shutdown that waits for something it should not wait for exceeds every timeout below."""


def test_shutdown_does_not_wait_for_event_followers(tmp_path: Path) -> None:
    lines: list[str] = []
    is_following = threading.Event()

    def follow(url: str) -> None:
        with httpx.stream("GET", f"{url}/v1/events", timeout=30) as answer:
            is_following.set()
            lines.extend(answer.iter_lines())  # raises unless the stream ends cleanly
        lines.append("the end")

    with running_server(tmp_path, environment=PATIENT) as server:
        follower = threading.Thread(target=follow, args=(server.url,))
        follower.start()
        assert is_following.wait(timeout=30)
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(timeout=60)
        follower.join()
    assert lines[-1:] == ["the end"]
    assert "Traceback" not in server.log.read_text()


def test_it_prints_its_address_and_shutdown_ignores_idle_connections(tmp_path: Path) -> None:
    with running_server(tmp_path, environment=PATIENT) as server:
        assert f"INFO app.server.server: listening on {server.url} " in server.log.read_text()
        with httpx.Client(base_url=server.url) as idle:
            assert idle.get("/livez").status_code == 200
            server.process.send_signal(signal.SIGTERM)
            server.process.wait(timeout=60)


def test_shutdown_does_not_wait_for_stalled_uploads(tmp_path: Path) -> None:
    begun = (
        head("PUT /v1/datasets/half", "Content-Length: 1000") + b"PK",
        head("POST /v1/modules", "Content-Length: 1000") + b"{",
        head("POST /v1/modules", "Content-Length: 1000", "Content-Type: multipart/form-data"),
        b"POST /v1/modules HTTP/1.1",
    )
    with running_server(tmp_path, environment=PATIENT) as server, ExitStack() as stack:
        stalled = [stack.enter_context(connect(server.url)) for _ in begun]
        for sock, request in zip(stalled, begun, strict=True):
            sock.sendall(request)
        with Client(server.url) as client:
            is_begun = (tmp_path / "datasets").exists
            wait_until(lambda: is_begun() and client.is_ready(), "the uploads have arrived")
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(timeout=60)
        assert [read_answer(sock).status for sock in stalled] == [503, 503, 400, 0]
    assert "Traceback" not in server.log.read_text()


def test_a_client_that_disconnects_during_a_body_causes_no_traceback(tmp_path: Path) -> None:
    with running_server(tmp_path, environment=ENVIRONMENT) as server, Client(server.url) as client:
        lenet.create(client, "lenet")

        def is_counted() -> bool:
            with connect(server.url) as half:
                half.sendall(head("POST /v1/modules/lenet/bind", "Content-Length: 100") + b"{")
                time.sleep(0.1)  # the route is usually reading by now; if not, the next try counts
            counted = 'route="/v1/modules/{module}/bind",status="499"'
            return counted in client.request("GET", "/metrics").text

        wait_until(is_counted, "an abandoned request is counted")
        assert "Traceback" not in server.log.read_text()


def test_all_addresses_of_a_host_get_the_same_free_port() -> None:
    sockets = listening_sockets("localhost", 0)
    try:
        (port,) = {one.getsockname()[1] for one in sockets}
        assert port > 0
        with pytest.raises(OSError, match="in use"):
            listening_sockets("127.0.0.1", port)
    finally:
        for one in sockets:
            one.close()


def test_an_invalid_address_is_an_error() -> None:
    with pytest.raises(socket.gaierror):
        listening_sockets("300.1.1.1", 8000)
