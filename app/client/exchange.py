"""How calls are made: retries, errors and streams, written once for both clients."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx

from app.client.bodies import counted
from app.client.errors import refusal, retry_after
from app.client.request import Request
from app.client.transport import Transport

__all__ = ["Exchange"]

_MAY_PASS = frozenset({429, 502, 503, 504})
"""Statuses that may change shortly."""
_BROKEN = (httpx.ConnectError, httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)
"""Errors after which a new connection may succeed; a timeout is not one of them."""

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 30.0
"""Longest delay that the server may ask for before a retry; beyond it, the call fails."""
_STREAM_TIMEOUT = httpx.Timeout(10.0, read=60.0)
_READY_TIMEOUT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Exchange:
    """Sends requests over a transport.

    Attributes:
        transport: blocking or asynchronous.
        timeout_seconds: of calls that are not streams.
        retries: how often a repeatable request is retried.
    """

    transport: Transport
    timeout_seconds: float | None
    retries: int

    async def answer(self, request: Request[Any]) -> httpx.Response:
        """Send a request; return the response, fully read.

        Raises:
            ClientError: the server refuses it.
            httpx.TransportError: the server cannot be reached.
        """
        sending = self._sent(request, self.timeout_seconds, is_streamed=False)
        response = await sending
        if not response.is_success:
            raise refusal(response)
        return response

    @asynccontextmanager
    async def streamed(
        self, request: Request[Any], timeout: httpx.Timeout = _STREAM_TIMEOUT
    ) -> AsyncIterator[httpx.Response]:
        """Send a request whose response is read piece by piece; raises as ``answer`` does."""
        response = await self._sent(request, timeout, is_streamed=True)
        try:
            if not response.is_success:
                await self.transport.read(response)
                raise refusal(response)
            yield response
        finally:
            await self.transport.end(response)

    async def is_ready(self) -> bool:
        """Return whether the server answers and is ready."""
        request = self.transport.http.build_request(
            "GET", "/readyz", timeout=_READY_TIMEOUT_SECONDS
        )
        try:
            response = await self.transport.send(request, is_streamed=False)
        except httpx.TransportError:
            return False
        return response.status_code == 200

    async def comes_back(self, within_seconds: float) -> bool:
        """Wait until the server is ready; return whether it was within this time."""
        deadline = time.monotonic() + within_seconds
        while not await self.is_ready():
            if time.monotonic() > deadline:
                return False
            await self.transport.sleep(_FIRST_PAUSE_SECONDS)
        return True

    async def _sent(
        self, request: Request[Any], timeout: httpx.Timeout | float | None, *, is_streamed: bool
    ) -> httpx.Response:
        # One key for all attempts, by which the server recognizes a repetition.
        key = {"Idempotency-Key": uuid.uuid4().hex} if request.has_key else {}
        left = self.retries if request.is_repeatable else 0
        pause = _FIRST_PAUSE_SECONDS
        while True:
            wanted = None
            try:
                with ExitStack() as files:
                    build = partial(self._built, request, files, key, timeout)
                    is_heavy = request.body is not None and request.body.is_heavy
                    built = await self.transport.work(build, is_heavy=is_heavy)
                    response = await self.transport.send(built, is_streamed=is_streamed)
                wanted = retry_after(response)
                is_final = response.status_code not in _MAY_PASS
                if is_final or left == 0 or (wanted or 0.0) > _LONGEST_PAUSE_SECONDS:
                    return response
                await self.transport.end(response)
            except _BROKEN as error:
                if left == 0:
                    if isinstance(error, httpx.ConnectError):
                        url = self.transport.http.base_url
                        error.add_note(f"No server answers at {url}: is 'modserve serve' running?")
                    raise
            # Random, so that clients that were refused together do not return together.
            await self.transport.sleep(
                pause * random.uniform(1.0, 1.5) if wanted is None else wanted
            )
            left -= 1
            pause *= 2

    def _built(
        self,
        request: Request[Any],
        files: ExitStack,
        key: dict[str, str],
        timeout: httpx.Timeout | float | None,
    ) -> httpx.Request:
        options: dict[str, Any] = {"timeout": timeout}
        if request.body is not None:
            options |= request.body.opened(files)
        options["headers"] = {**(options.get("headers") or {}), **(request.headers or {}), **key}
        if request.accept is not None:
            options["headers"]["Accept"] = request.accept
        query = {name: one for name, one in (request.query or {}).items() if one is not None}
        if query:
            options["params"] = query
        built = self.transport.http.build_request(request.verb, request.path, **options)
        # A body of files is a blocking stream, which the asynchronous client could not send.
        is_whole = isinstance(built.stream, httpx.ByteStream) and request.progress is None
        if isinstance(built.stream, httpx.SyncByteStream) and not is_whole:
            pieces: Iterable[bytes] = built.stream
            if request.progress is not None:
                total = int(built.headers.get("Content-Length", 0))
                pieces = counted(pieces, total, request.progress)
            built.stream = self.transport.carried(pieces)
        return built
