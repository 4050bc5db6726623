"""One request in the fast path, from its first bytes to its response."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

from app.api.exchanges import Body, Client, LongBody, Pending
from app.server.fast_path import KnownHead

__all__ = ["FastExchange"]

Answer: TypeAlias = Callable[["FastExchange", int, bytes, Body], Pending | None]
"""Called with the exchange, status, header lines and body of a response; returns what is still
being sent."""


class FastExchange:
    """Collects a request's body, starts its prediction and passes the response on.

    Attributes:
        head: of the request.
        request_id: of the request.
        started: arrival time, by the performance counter.
        missing: bytes of the body that have not arrived yet.
    """

    __slots__ = (
        *("_answer", "_body", "_client", "_is_over", "_pending"),
        *("head", "missing", "request_id", "started"),
    )

    def __init__(self, head: KnownHead, request_id: str, client: Client, answer: Answer) -> None:
        self.head = head
        self._client = client
        self.request_id = request_id
        self.started = time.perf_counter()
        self.missing = head.body_bytes
        self._answer = answer
        self._body = b""
        self._pending: Pending | None = None
        self._is_over = False

    @property
    def milliseconds(self) -> float:
        """Time since the request arrived."""
        return (time.perf_counter() - self.started) * 1000

    @property
    def is_whole(self) -> bool:
        """True once the body is complete and the response is being computed or sent."""
        return self._pending is not None

    def feed(self, data: bytes) -> bytes:
        """Take the missing part of the body from ``data``; once it is complete, predict.

        Returns:
            what belongs to the next request.
        """
        missing = self.missing
        piece, rest = (data, b"") if len(data) <= missing else (data[:missing], data[missing:])
        self._body = self._body + piece if self._body else piece
        self.missing = missing - len(piece)
        if not self.missing:
            pending = self.head.begin(self._body, self.request_id, self._respond, self._client)
            if not self._is_over:  # a refusal is sent before ``begin`` returns
                self._pending = pending
        return rest

    def withdraw(self) -> None:
        """Cancel the request; no response will be sent."""
        self._is_over = True
        if self._pending is not None:
            self._pending.withdraw()

    def _respond(self, status: int, lines: bytes, body: Body) -> None:
        if not self._is_over:
            self._is_over = True
            self._pending = None
            self._pending = self._answer(self, status, lines, body)
        elif isinstance(body, LongBody):
            body.release()
