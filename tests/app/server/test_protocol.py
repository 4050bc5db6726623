"""Connections that ask for too much, stall or send garbage: refused without affecting others."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import threading
import time
from collections.abc import Iterator

import httpx
import numpy as np
import pytest

from app.client import Client
from app.client.local_server import ServerProcess, running_server
from served.processes import ENVIRONMENT, resident_bytes, wait_until
from served.sockets import Answer, connect, exchange, head, read_answer

MIB = 1 << 20
LIMITS = {
    "MODSERVE_HEADER_SECONDS": "1.5",
    "MODSERVE_BODY_IDLE_SECONDS": "1.5",
    "MODSERVE_MIN_BODY_RATE": "1000",
    "MODSERVE_WRITE_IDLE_SECONDS": "1.5",
    "MODSERVE_MAX_CONNECTIONS": "12",
    "MODSERVE_MAX_FOLLOWERS": "3",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running_server(tmp_path_factory.mktemp("edge"), environment=ENVIRONMENT | LIMITS) as one:
        yield one


@pytest.fixture(autouse=True)
def still_serves(server: ServerProcess) -> Iterator[None]:
    yield
    with Client(server.url) as client:
        wait_until(client.is_ready, "the server answers")
    assert "Traceback" not in server.log.read_text()


def assert_refused(answer: Answer, status: int, code: str, *words: str) -> None:
    assert answer.status == status, answer
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["connection"] == "close"
    problem = json.loads(answer.body)
    assert (problem["status"], problem["code"]) == (status, code)
    assert problem["request_id"] == answer.headers["x-request-id"] != ""
    for word in words:
        assert word in problem["detail"]


BIG = "MODSERVE_MAX_HEADER_BYTES"


@pytest.mark.parametrize(
    "request_bytes",
    [
        head("GET /livez", "X: " + "a" * 70_000),
        head("GET /livez", *(f"X-{n}: {'a' * 1000}" for n in range(70))),
        head(f"GET /livez?{'a' * 70_000}"),
        b"GET /livez HTTP/1.1\r\nX: " + b"a" * 3 * MIB,
        b"GET /livez HTTP/1.1\r\n" + b"a" * 3 * MIB,
        b"GET /" + b"a" * 3 * MIB,
        b"\r\n" * MIB,
    ],
    ids=["line", "sum", "query", "endless", "name", "path", "lines"],
)
def test_long_heads_are_refused(server: ServerProcess, request_bytes: bytes) -> None:
    assert_refused(exchange(server.url, request_bytes), 431, "headers_too_large", BIG)
    with connect(server.url) as sock:  # also as the second request of a connection
        sock.sendall(head("GET /livez"))
        assert read_answer(sock).status == 200
        with contextlib.suppress(OSError):
            sock.sendall(request_bytes)
        assert_refused(read_answer(sock), 431, "headers_too_large", BIG)


def test_too_many_header_fields_are_refused_with_their_number(server: ServerProcess) -> None:
    answer = exchange(server.url, head("GET /livez", *(f"X-{n}: a" for n in range(300))))
    assert_refused(answer, 431, "headers_too_large", "more than 256 header fields; send fewer")


def test_heads_under_the_limit_are_accepted(server: ServerProcess) -> None:
    fields = [f"X-{n}: {'a' * 300}" for n in range(200)]
    assert exchange(server.url, head("GET /livez", *fields)).status == 200


def test_trailers_are_dropped_and_limited(server: ServerProcess) -> None:
    start = head("POST /v1/modules", "Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n"
    assert exchange(server.url, start + b"X-Request-Id: late\r\n\r\n").status == 422
    answer = exchange(server.url, start + b"X: " + b"a" * 3 * MIB)
    assert_refused(answer, 431, "headers_too_large", BIG)
    answer = exchange(
        server.url, head("GET /livez", "Transfer-Encoding: chunked") + b"0;" + b"a" * 3 * MIB
    )
    assert answer.status in (200, 431)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
        b"GET\r\n\r\n",
        b"GET /livez HTTP/9.9\r\n\r\n",
        head("GET /livez", "Content-Length: 5", "Content-Length: 6"),
        head("GET /livez", "Content-Length: -5"),
        head("GET /livez", f"Content-Length: {10**30}"),
        head("POST /livez", "Content-Length: 5", "Transfer-Encoding: chunked"),
        head("POST /v1/modules", "Transfer-Encoding: chunked") + b"zz\r\n",
        head("POST /v1/modules", "Transfer-Encoding: chunked") + b"2\r\n{}garbage\r\n",
        head("POST /v1/modules", "Transfer-Encoding: chunked") + b"f" * 40 + b"\r\n",
        head("GET /livez", "X\x00: a"),
        head("CONNECT 127.0.0.1:80"),
        head("GET /livez", " folded: a"),
    ],
)
def test_malformed_http_is_refused(server: ServerProcess, request_bytes: bytes) -> None:
    assert_refused(exchange(server.url, request_bytes), 400, "malformed")


def test_upgrades_are_ignored(server: ServerProcess) -> None:
    for protocol in ("websocket", "h2c"):
        fields = ("Connection: Upgrade", f"Upgrade: {protocol}", "Sec-WebSocket-Key: a")
        assert exchange(server.url, head("GET /livez", *fields)).status == 200


@pytest.mark.parametrize(
    "begun",
    [
        b"G",
        b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX",
    ],
)
def test_incomplete_heads_time_out(server: ServerProcess, begun: bytes) -> None:
    for first in (b"", head("GET /livez")):
        with connect(server.url) as sock:
            if first:
                sock.sendall(first)
                assert read_answer(sock).status == 200
            sock.sendall(begun)
            assert_refused(read_answer(sock), 408, "too_slow", "header fields")


def test_an_idle_connection_is_closed(server: ServerProcess) -> None:
    with connect(server.url) as sock:
        assert sock.recv(1) == b""


def drip(sock: socket.socket, piece: bytes, stop: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while not stop.wait(0.2):
            sock.sendall(piece)


@pytest.mark.parametrize(
    ("begun", "piece", "status"),
    [
        (b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"X: a\r\n", 408),
        (b"", b"\r\n", 408),
        (head("POST /v1/modules", "Content-Length: 100000"), b"{", 408),
        (head("PUT /v1/datasets/slow?kind=npz", "Content-Length: 1000000"), b"PK", 408),
        (head("POST /v1/modules", "Transfer-Encoding: chunked"), b"1\r\n{\r\n", 408),
    ],
)
def test_a_trickle_of_bytes_does_not_keep_a_connection_open(
    server: ServerProcess, begun: bytes, piece: bytes, status: int
) -> None:
    stop = threading.Event()
    with connect(server.url) as sock:
        sock.sendall(begun)
        dripping = threading.Thread(target=drip, args=(sock, piece, stop))
        dripping.start()
        try:
            assert_refused(read_answer(sock), status, "too_slow")
        finally:
            stop.set()
            dripping.join()


def test_a_stalled_body_times_out(server: ServerProcess) -> None:
    for path in ("/v1/modules", "/v1/datasets/slow?kind=npz"):
        verb = "PUT" if "datasets" in path else "POST"
        answer = exchange(server.url, head(f"{verb} {path}", "Content-Length: 1000") + b"{")
        assert_refused(answer, 408, "too_slow", "body")
    assert httpx.get(f"{server.url}/v1/datasets").json()["items"] == []


def test_a_steady_body_may_take_its_time(server: ServerProcess) -> None:
    body = b" " * 10_000 + b"{}"
    with connect(server.url) as sock:
        sock.sendall(head("POST /v1/modules", f"Content-Length: {len(body)}"))
        # It takes longer than MODSERVE_BODY_IDLE_SECONDS, at five times MODSERVE_MIN_BODY_RATE.
        for begin in range(0, len(body), 500):
            sock.sendall(body[begin : begin + 500])
            time.sleep(0.1)
        assert read_answer(sock).status == 422


def test_the_refusal_of_a_large_body_can_be_read(server: ServerProcess) -> None:
    with connect(server.url) as sock:
        sock.sendall(head("POST /v1/modules", f"Content-Length: {1 << 40}"))
        sent = 0
        with contextlib.suppress(OSError):
            while sent < 64 * MIB:
                sent += sock.send(bytes(MIB))
        answer = read_answer(sock)
    assert answer.status == 413


def test_too_many_connections_are_refused(server: ServerProcess) -> None:
    with contextlib.ExitStack() as stack:
        many = [stack.enter_context(connect(server.url)) for _ in range(13)]
        for sock in many[:12]:
            sock.sendall(head("GET /livez"))
            assert read_answer(sock).status == 200
        many[12].sendall(head("GET /livez"))
        answer = read_answer(many[12])
        assert_refused(answer, 503, "unavailable", "MODSERVE_MAX_CONNECTIONS")
        assert int(answer.headers["retry-after"]) >= 1
        flood = [stack.enter_context(connect(server.url)) for _ in range(80)]
        assert_refused(read_answer(flood[-1]), 503, "unavailable", "MODSERVE_MAX_CONNECTIONS")
        many[0].sendall(head("GET /livez"))
        assert read_answer(many[0]).status == 200  # existing connections are served

    def is_served() -> bool:
        return exchange(server.url, head("GET /livez")).status == 200

    wait_until(is_served, "a new connection is accepted again")


def test_event_followers_are_counted_separately(server: ServerProcess) -> None:
    with contextlib.ExitStack() as stack:
        followers = [stack.enter_context(connect(server.url)) for _ in range(4)]
        for sock in followers[:3]:
            sock.sendall(head("GET /v1/events"))
            assert read_answer(sock).status == 200
        followers[3].sendall(head("GET /v1/events"))
        answer = read_answer(followers[3])
        assert_refused(answer, 503, "unavailable", "MODSERVE_MAX_FOLLOWERS")
        others = [stack.enter_context(connect(server.url)) for _ in range(10)]
        for sock in others:
            sock.sendall(head("GET /livez"))
            assert read_answer(sock).status == 200
        followers[0].close()

        def may_follow() -> bool:
            sock = stack.enter_context(connect(server.url))
            sock.sendall(head("GET /v1/events"))
            return read_answer(sock).status == 200

        wait_until(may_follow, "a new follower in place of the one that left")


def test_a_client_that_does_not_read_is_disconnected(server: ServerProcess) -> None:
    file = 64 * MIB
    with Client(server.url) as client:
        client.request("PUT", "/v1/datasets/large", params={"kind": "npy"}, content=npy_of(file))
        before = resident_bytes(server.process.pid)
        with contextlib.ExitStack() as stack:
            slow = [stack.enter_context(connect(server.url)) for _ in range(8)]
            for sock in slow:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
                sock.sendall(head("GET /v1/datasets/large/file"))
                assert sock.recv(4) == b"HTTP"
            assert client.is_ready()
            assert resident_bytes(server.process.pid) - before < file // 2
            for sock in slow:
                wait_until(lambda sock=sock: is_reset(sock), "the slow connection is closed")
        client.delete_dataset("large")


def is_reset(sock: socket.socket) -> bool:
    return bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))


def npy_of(size: int) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.zeros(size, np.uint8))
    return stream.getvalue()
