"""Clients that send slowly or do not read: others are served, and memory stays bounded."""

from __future__ import annotations

import contextlib
import io
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from app.client import Client
from app.client.local_server import ServerProcess, running_server
from served.network import BIND, FEATURES, NETWORK
from served.processes import ENVIRONMENT, resident_bytes, wait_until
from served.sockets import connect, head, read_answer

MIB = 1 << 20
LIMITS = {
    "MODSERVE_HEADER_SECONDS": "3",
    "MODSERVE_BODY_IDLE_SECONDS": "3",
    "MODSERVE_WRITE_IDLE_SECONDS": "3",
}
_BYTES_OF_ONE = 128 << 10  # most memory of a connection, with the unread part of its answer
BEGINNINGS = (
    b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ",
    head("POST /v1/modules/net/predict", "Content-Length: 1000000") + b"{",
    head("PUT /v1/datasets/slow?kind=npz", "Content-Length: 1000000") + b"PK",
    head(
        "POST /v1/modules", "Content-Length: 90000", "Content-Type: multipart/form-data; boundary=b"
    ),
)


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("slow")
    with running_server(folder, environment=ENVIRONMENT | LIMITS) as server:
        with Client(server.url) as client:
            client.create_module("net", NETWORK)
            client.bind("net", **BIND)
            client.init_params("net", "xavier")
            stream = io.BytesIO()
            np.save(stream, np.zeros(32 * MIB, np.uint8))
            client.request("PUT", "/v1/datasets/large?kind=npy", content=stream.getvalue())
        yield server


def serve_beside(server: ServerProcess, senders: int, readers: int, predictions: int) -> None:
    """Check that predictions are answered beside slow clients, which are then disconnected."""
    before = resident_bytes(server.process.pid)
    stop = threading.Event()
    with Client(server.url, timeout_seconds=10) as client, ExitStack() as stack:
        slow = [stack.enter_context(connect(server.url)) for _ in range(senders + readers)]
        for number, sock in enumerate(slow[:senders]):
            sock.sendall(BEGINNINGS[number % len(BEGINNINGS)])
        for sock in slow[senders:]:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
            sock.sendall(head("GET /v1/datasets/large/file"))
        dripping = threading.Thread(target=drip, args=(slow[:senders], stop))
        dripping.start()
        try:
            for _ in range(predictions):
                answer = client.predict("net", data=[[0.5] * FEATURES])
                assert answer["softmax_output"].shape == (1, 3)
            most = 20 * MIB + (senders + readers) * _BYTES_OF_ONE
            assert resident_bytes(server.process.pid) - before < most
            for number, sock in enumerate(slow[:senders]):
                if number % len(BEGINNINGS) != len(BEGINNINGS) - 1:
                    assert read_answer(sock).status == 408, BEGINNINGS[number % len(BEGINNINGS)]
            for sock in slow[senders:]:
                wait_until(
                    lambda sock=sock: sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR),
                    "the connection of a client that does not read is closed",
                )
        finally:
            stop.set()
            dripping.join()
        assert client.is_ready()
    assert "Traceback" not in server.log.read_text()


def drip(socks: list[socket.socket], stop: threading.Event) -> None:
    """Send a byte on each connection every half second."""
    while not stop.wait(0.5):
        for sock in socks:
            with contextlib.suppress(OSError):
                sock.send(b" ")


@pytest.mark.slow
def test_some_slow_clients(server: ServerProcess) -> None:
    serve_beside(server, senders=40, readers=10, predictions=50)


@pytest.mark.soak
def test_many_slow_clients(server: ServerProcess) -> None:
    after_each = []
    for _ in range(5):
        serve_beside(server, senders=600, readers=150, predictions=500)
        after_each.append(resident_bytes(server.process.pid))
    print(f"\nMiB after each round: {[size >> 20 for size in after_each]}")
    assert after_each[-1] - after_each[0] < 20 * MIB
