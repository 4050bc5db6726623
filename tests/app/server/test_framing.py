"""Every body is read to its end, whatever its head asks for, and nothing of it is a request."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import httpx
import numpy as np
import pytest

from app.client import Client
from app.client.local_server import ServerProcess, running_server
from served.perceptron import perceptron
from served.processes import ENVIRONMENT
from served.sockets import Answer, connect, head, read_answer

FEATURES = 8
ROWS = np.arange(2 * FEATURES, dtype="f").reshape(2, FEATURES) / 10
BODY = json.dumps({"data": ROWS.tolist()}).encode()
SMUGGLED = head("DELETE /v1/datasets/victim")
H2C = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")
UPGRADES = {
    "h2c": H2C,
    "websocket": ("Connection: upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: a"),
    "two": ("Upgrade: TLS/1.0", "connection: UPGRADE", "Upgrade: h2c"),
    "unnamed": ("Upgrade: h2c",),
}
BOTH = pytest.mark.parametrize("fields", UPGRADES.values(), ids=UPGRADES)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running_server(tmp_path_factory.mktemp("upgrades"), environment=ENVIRONMENT) as server:
        with Client(server.url) as client:
            client.create_module("net", perceptron().tojson())
            shapes = [{"name": "data", "shape": [4, FEATURES]}]
            client.bind("net", shapes, for_training=False)
            client.init_params("net", seed=3)
        httpx.put(f"{server.url}/v1/datasets/victim?kind=text", content=b"kept\n")
        yield server


@pytest.fixture
def sock(server: ServerProcess) -> Iterator[socket.socket]:
    with connect(server.url) as sock:
        yield sock


def ask(sock: socket.socket, line: str, body: bytes, *fields: str) -> Answer:
    """Send a head and, once it has arrived, the body."""
    sock.sendall(head(line, *fields, f"Content-Length: {len(body)}"))
    sock.settimeout(0.05)
    with pytest.raises(TimeoutError):
        sock.recv(1)  # nothing is answered before the body is there
    sock.settimeout(30)
    sock.sendall(body)
    return read_answer(sock)


@BOTH
def test_the_body_is_no_request(
    server: ServerProcess, sock: socket.socket, fields: tuple[str, ...]
) -> None:
    refused = ask(sock, "POST /v1/modules/net/predict", SMUGGLED, *fields)
    assert refused.status == 400, refused
    sock.sendall(head("GET /v1/datasets/victim"))
    assert json.loads(read_answer(sock).body)["name"] == "victim"


@BOTH
def test_the_body_is_read(
    server: ServerProcess, sock: socket.socket, fields: tuple[str, ...]
) -> None:
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED)
    assert ask(sock, "PUT /v1/datasets/apart?kind=text", SMUGGLED, *fields).status == 200
    sock.sendall(
        head("PUT /v1/datasets/at-once?kind=text", *fields, f"Content-Length: {len(SMUGGLED)}")
        + SMUGGLED
        + head("PUT /v1/datasets/chunked?kind=text", *fields, "Transfer-Encoding: chunked")
        + chunks
        + head("GET /v1/datasets/victim", "Connection: close")
    )
    received = b"".join(iter(lambda: sock.recv(1 << 16), b""))
    assert received.count(b"HTTP/1.1 200 ") == received.count(b"HTTP/1.1 ") == 3
    for name in ("apart", "at-once", "chunked"):
        url = f"{server.url}/v1/datasets/{name}"
        assert httpx.get(f"{url}/file").content == SMUGGLED
        httpx.delete(url)


@BOTH
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_changes_are_made(
    server: ServerProcess, sock: socket.socket, fields: tuple[str, ...], version: str
) -> None:
    line = f"POST /v1/modules/net/params/init HTTP/{version}"
    body = json.dumps({"initializer": "one"}).encode()
    lines = [line, "Host: 127.0.0.1", *fields, f"Content-Length: {len(body)}", "", ""]
    sock.sendall("\r\n".join(lines).encode() + body)
    assert read_answer(sock).status == 200
    with Client(server.url) as client:
        weights = [value for name, value in client.params("net").items() if "weight" in name]
        assert weights
        assert all((value == 1).all() for value in weights)
        client.init_params("net", seed=3)


@BOTH
@pytest.mark.parametrize(
    "path", ["/v1/modules/net/predict", "/v1/modules/net/predict?version=live"]
)
def test_predictions_are_the_same(
    server: ServerProcess, sock: socket.socket, fields: tuple[str, ...], path: str
) -> None:
    plain = httpx.post(f"{server.url}{path}", content=BODY)
    for _ in range(3):
        answer = ask(sock, f"POST {path}", BODY, *fields)
        assert answer.status == plain.status_code
        assert json.loads(answer.body).get("outputs") == plain.json().get("outputs")
        is_fast = answer.headers["x-request-id"][16:19] == "000"
        assert is_fast == (plain.status_code == 200)  # an unknown version is left to the route


def test_a_connection_ends_when_asked(sock: socket.socket) -> None:
    fields = ("Connection: close, Upgrade", "Upgrade: h2c")
    answer = ask(sock, "POST /v1/modules/net/predict", BODY, *fields)
    assert answer.status == 200
    assert answer.headers["connection"] == "close"
    assert sock.recv(1) == b""


@pytest.mark.parametrize("fields", [(), H2C], ids=["plain", "h2c"])
@pytest.mark.parametrize("target", ["127.0.0.1:80", "[::1]:80", "/livez"])
def test_connect_is_refused(sock: socket.socket, target: str, fields: tuple[str, ...]) -> None:
    sock.sendall(head(f"CONNECT {target}", *fields) + SMUGGLED)
    assert read_answer(sock).status == 400
    assert sock.recv(1) == b""


def test_the_preface_of_http_2_is_refused(sock: socket.socket) -> None:
    sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9))
    assert read_answer(sock).status == 400


def test_too_many_fields_are_refused(sock: socket.socket) -> None:
    sock.sendall(head("POST /v1/modules", *H2C, *(f"X-{n}: a" for n in range(300))) + SMUGGLED)
    assert read_answer(sock).status == 431


@pytest.mark.parametrize(
    "coding",
    [
        "gzip, chunked",
        "xchunked, chunked",
        "gzip\r\nTransfer-Encoding: chunked",
    ],
)
def test_other_transfer_codings_are_refused(sock: socket.socket, coding: str) -> None:
    line = "PUT /v1/datasets/packed?kind=text"
    sock.sendall(head(line, f"Transfer-Encoding: {coding}") + b"1\r\na\r\n0\r\n\r\n")
    answer = read_answer(sock)
    assert answer.status == 501
    assert json.loads(answer.body)["code"] == "unsupported_coding"
    assert sock.recv(1) == b""


@pytest.mark.parametrize("coding", ["gzip", "chunked, gzip", "chunked, chunked", "identity"])
def test_bodies_without_an_end_are_refused(sock: socket.socket, coding: str) -> None:
    sock.sendall(head("PUT /v1/datasets/packed?kind=text", f"Transfer-Encoding: {coding}") + b"a")
    assert read_answer(sock).status in (400, 501)
    assert sock.recv(1) == b""


def test_http_1_0_gets_no_chunks(server: ServerProcess, sock: socket.socket) -> None:
    with Client(server.url) as client:
        sock.sendall(b"GET /v1/events?after=0 HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
        received = b""
        while b"module_" not in received:
            received += sock.recv(1 << 16)
            client.init_params("net", seed=3)
    top, _, events = received.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in top.lower()
    assert b"connection: close" in top.lower()
    assert events.startswith(b"retry: ")


def test_http_1_0_is_not_told_to_continue(sock: socket.socket) -> None:
    fields = b"Host: 127.0.0.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
    sock.sendall(b"PUT /v1/datasets/old?kind=text HTTP/1.0\r\n" + fields)
    sock.settimeout(0.2)
    with pytest.raises(TimeoutError):
        sock.recv(1)
    sock.settimeout(30)
    sock.sendall(b"text")
    assert sock.recv(1 << 16).startswith(b"HTTP/1.1 200")
