"""A closed-loop HTTP load generator with low overhead: ``python -m app.cli.bench.load``.

Each client is one connection that repeats its request as soon as it has the response.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import orjson

__all__ = ["main"]

_END = b"\r\n\r\n"
_LENGTH = b"content-length:"


class _Client(asyncio.Protocol):
    """One connection, which records the latency of each answer in seconds."""

    def __init__(self, request: bytes, until: float) -> None:
        self._request = request
        self._until = until
        self._buffer = b""
        self._asked_at = 0.0
        self.seconds: list[float] = []
        self.refused = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        end = buffer.find(_END)
        if end < 0:
            self._buffer = buffer
            return
        # No parser, because the generator shares the cores with the server that it measures.
        head = buffer[:end].lower()
        at = head.index(_LENGTH) + len(_LENGTH)
        line_end = head.find(b"\r\n", at)
        size = int(head[at : line_end if line_end > 0 else len(head)])
        if len(buffer) < end + len(_END) + size:
            self._buffer = buffer
            return
        self._buffer = b""
        now = time.perf_counter()
        self.seconds.append(now - self._asked_at)
        self.refused += not head.startswith(b"http/1.1 200")
        if now < self._until:
            self._ask()
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def _ask(self) -> None:
        self._asked_at = time.perf_counter()
        self._transport.write(self._request)


async def _run(url: str, request: bytes, clients: int, seconds: float) -> dict[str, float]:
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 80
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    made = []
    for _ in range(clients):
        _, client = await loop.create_connection(
            lambda: _Client(request, began + seconds), host, port
        )
        made.append(client)
    await asyncio.gather(*(client.done for client in made))
    taken = time.perf_counter() - began
    times = sorted(second for client in made for second in client.seconds)
    if not times:
        raise SystemExit(f"{url} answered nothing")
    return {
        "per_second": len(times) / taken,
        "p50_ms": times[len(times) // 2] * 1e3,
        "p99_ms": times[int(len(times) * 0.99)] * 1e3,
        "refused": sum(client.refused for client in made),
    }


def main() -> int:
    """Print requests per second, latencies and the number of answers other than 200, as JSON."""
    parser = argparse.ArgumentParser(prog="app.cli.bench.load", description=__doc__)
    parser.add_argument("url", help="path of the socket")
    parser.add_argument("body", type=Path, help="file with the body")
    parser.add_argument("clients", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("header", nargs="*", help="NAME: VALUE")
    options = parser.parse_args()
    parts = urlsplit(options.url)
    body = options.body.read_bytes()
    lines = [
        f"POST {parts.path} HTTP/1.1",
        f"Host: {parts.netloc}",
        *options.header,
        f"Content-Length: {len(body)}",
    ]
    request = "\r\n".join([*lines, "", ""]).encode() + body
    found = asyncio.run(_run(options.url, request, options.clients, options.seconds))
    print(orjson.dumps(found).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
