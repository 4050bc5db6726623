"""A flood of malformed requests, and the answers."""

from __future__ import annotations

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx

from app.client.local_server import ServerProcess
from served.malformed import malformed_request
from served.processes import resident_bytes
from served.sockets import exchange
from served.ticking import Gap, Gaps

__all__ = ["FLOOD_LIMITS", "Flood"]

FLOOD_LIMITS = {
    "MODSERVE_HEADER_SECONDS": "1",
    "MODSERVE_BODY_IDLE_SECONDS": "1",
    "MODSERVE_MAX_BODY_BYTES": str(1 << 20),
}
"""Short timeouts, since many of the requests are never completed."""

_THREADS = 12
_THROUGH_A_LIBRARY = 10  # one request in this many is sent by httpx, whose framing is valid


@dataclass
class Flood:
    """Sends requests and counts the answers.

    Attributes:
        statuses: how often each status was answered; 0 is a connection closed without an answer.
        wrong: status, request and body of answers that no malformed request should get.
    """

    server: ServerProcess
    gaps: Gaps
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[tuple[int, bytes, bytes]] = field(default_factory=list)

    def send(self, count: int, seed: int) -> None:
        """Send this many requests, a few at a time."""
        numbers = iter(range(count))
        lock = threading.Lock()

        def work() -> None:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                draw = random.Random(seed * 1_000_003 + number)
                if number % _THROUGH_A_LIBRARY == 0:
                    self._send_by_library(draw)
                else:
                    self._send_raw(draw)

        with ThreadPoolExecutor(_THREADS) as pool:
            for done in [pool.submit(work) for _ in range(_THREADS)]:
                done.result()

    def resident_bytes(self) -> int:
        """Return the memory of the server's process."""
        return resident_bytes(self.server.process.pid)

    def longest_gap(self) -> Gap:
        """Return the longest gap of the event loop since the last reset."""
        return self.gaps.longest()

    def _send_raw(self, draw: random.Random) -> None:
        request = malformed_request(draw)
        answer = exchange(self.server.url, request, seconds=60)
        has_hint = "retry-after" in answer.headers
        self._note(answer.status, has_hint, request, answer.body)

    def _send_by_library(self, draw: random.Random) -> None:
        request = malformed_request(draw)
        body = request.partition(b"\r\n\r\n")[2]
        path = draw.choice(("predict", "bind", "fit", "forward", "params/init", "optimizer"))
        verb = draw.choice(("POST", "PUT", "PATCH"))
        url = f"{self.server.url}/v1/modules/net/{path}"
        answer = httpx.request(verb, url, content=body, timeout=60)
        has_hint = "retry-after" in answer.headers
        self._note(answer.status_code, has_hint, body, answer.content)

    def _note(self, status: int, has_hint: bool, request: bytes, body: bytes) -> None:
        self.statuses[status] += 1
        if status >= 500 and status != 501 and not (status == 503 and has_hint):
            self.wrong.append((status, request[:2000], body))
