"""Raw connections to a server, for requests no client library would send."""

from __future__ import annotations

import contextlib
import random
import socket
from dataclasses import dataclass, field

import httpx

__all__ = ["Answer", "connect", "exchange", "free_port", "head", "read_answer"]


@dataclass
class Answer:
    """An HTTP answer: status 0 if the connection ended without one."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


def free_port() -> int:
    """Return a free port of the loopback address, for programs that cannot choose one themselves.

    It is below 32768, where the ports begin that Linux hands out to servers that ask for port 0, so
    no such server takes it before the program does.
    """
    while True:
        with contextlib.suppress(OSError):
            port = random.randrange(20_000, 32_000)
            socket.create_server(("127.0.0.1", port)).close()
            return port


def connect(url: str, seconds: float = 30) -> socket.socket:
    """Return a connection to a server."""
    parsed = httpx.URL(url)
    return socket.create_connection((parsed.host, parsed.port), timeout=seconds)


def head(line: str, *fields: str, host: str = "127.0.0.1") -> bytes:
    """Return the head of a request."""
    return "\r\n".join([f"{line} HTTP/1.1", f"Host: {host}", *fields, "", ""]).encode()


def exchange(url: str, request: bytes, seconds: float = 30) -> Answer:
    """Send bytes and return the answer, which may come before all bytes are sent."""
    with connect(url, seconds) as sock:
        with contextlib.suppress(OSError):  # the server may refuse before it has read everything
            sock.sendall(request)
        return read_answer(sock)


def read_answer(sock: socket.socket) -> Answer:
    """Read one final answer from a connection."""
    data = b""
    while True:
        while b"\r\n\r\n" not in data:
            if not (piece := _received(sock)):
                return Answer()
            data += piece
        top, _, data = data.partition(b"\r\n\r\n")
        line, *fields = top.decode("latin-1").split("\r\n")
        status = int(line.split()[1])
        if status >= 200:
            break
    headers = {name.lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)}
    wanted = int(headers.get("content-length", 0))
    body = bytearray(data)
    while len(body) < wanted and (piece := _received(sock)):
        body += piece
    return Answer(status, headers, bytes(body))


def _received(sock: socket.socket) -> bytes:
    try:
        return sock.recv(1 << 16)
    except ConnectionResetError:
        return b""
