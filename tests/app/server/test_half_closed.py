"""A client that has sent all, and says so by ending its side, gets its answer."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import httpx
import pytest

from app.client import Client
from app.client.local_server import ServerProcess, running_server
from served.perceptron import perceptron
from served.processes import ENVIRONMENT, wait_until
from served.sockets import connect, head, read_answer

FEATURES = 8
PREDICT = "/v1/modules/net/predict"
BODY = json.dumps({"data": [[0.5] * FEATURES]}).encode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running_server(tmp_path_factory.mktemp("half"), environment=ENVIRONMENT) as server:
        with Client(server.url) as client:
            client.create_module("net", perceptron().tojson())
            shapes = [{"name": "data", "shape": [4, FEATURES]}]
            client.bind("net", shapes, for_training=False)
            client.init_params("net", seed=3)
        yield server


@pytest.fixture
def sock(server: ServerProcess) -> Iterator[socket.socket]:
    with connect(server.url) as sock:
        yield sock


def request(line: str, body: bytes, *fields: str) -> bytes:
    return head(line, f"Content-Length: {len(body)}", *fields) + body


@pytest.mark.parametrize(
    ("line", "body"),
    [
        ("GET /v1/modules", b""),
        ("PUT /v1/datasets/half?kind=text", b"some text"),
        (f"POST {PREDICT}", BODY),
        (f"POST {PREDICT}?version=live", BODY),
        ("POST /v1/modules/net/params/init", b"{}"),
    ],
)
def test_the_answer_comes_and_the_connection_ends(
    sock: socket.socket, line: str, body: bytes
) -> None:
    sock.sendall(request(line, body))
    sock.shutdown(socket.SHUT_WR)
    assert read_answer(sock).status == 200
    assert sock.recv(1) == b""


def test_http_1_0_is_answered_too(server: ServerProcess, sock: socket.socket) -> None:
    sock.sendall(b"PUT /v1/datasets/old?kind=text HTTP/1.0\r\nHost: 127.0.0.1\r\n")
    sock.sendall(b"Content-Length: 4\r\n\r\ntext")
    sock.shutdown(socket.SHUT_WR)
    received = b"".join(iter(lambda: sock.recv(1 << 16), b""))
    assert received.startswith(b"HTTP/1.1 200")
    assert httpx.get(f"{server.url}/v1/datasets/old/file").content == b"text"


def test_all_requests_of_a_pipeline_are_answered(sock: socket.socket) -> None:
    fast = request(f"POST {PREDICT}", BODY)
    sock.sendall(head("GET /livez") + fast + fast + request("GET /v1/modules", b"") + fast)
    sock.shutdown(socket.SHUT_WR)
    received = b"".join(iter(lambda: sock.recv(1 << 16), b""))
    assert received.count(b"HTTP/1.1 200 ") == 5


def test_a_body_without_its_end_is_dropped(server: ServerProcess, sock: socket.socket) -> None:
    sock.sendall(head("PUT /v1/datasets/part?kind=text", "Content-Length: 100") + b"part")
    sock.shutdown(socket.SHUT_WR)
    assert sock.recv(1) == b""
    assert httpx.get(f"{server.url}/v1/datasets/part").status_code == 404


def test_a_client_that_left_is_noticed(server: ServerProcess) -> None:
    def followers() -> int:
        text = httpx.get(f"{server.url}/metrics").text
        (line,) = [
            one
            for one in text.splitlines()
            if one.startswith("modserve_http_requests_total") and "/v1/events" in one
        ] or [" 0"]
        return int(float(line.split()[-1]))

    before = followers()
    with connect(server.url) as sock:
        sock.sendall(head("GET /v1/events"))
        sock.recv(1)
    wait_until(lambda: followers() > before, "the stream has ended")
