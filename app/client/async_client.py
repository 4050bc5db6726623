"""The asynchronous client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from types import TracebackType
from typing import Self, TypeVar

import httpx

from app.client.callers import AsyncCaller
from app.client.client import Calls, http_options
from app.client.exchange import Exchange

__all__ = ["AsyncClient", "AsyncTransport"]

T = TypeVar("T")


class AsyncTransport:
    """The ``Transport`` of the asynchronous client, which never blocks the event loop."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    def carried(self, pieces: Iterable[bytes]) -> httpx.AsyncByteStream:
        """Return an async stream of a body, read from its files in a thread."""
        return _AsyncBodyStream(pieces)

    async def work(self, function: Callable[[], T], *, is_heavy: bool) -> T:
        """Do some work, in a thread if it takes a while."""
        return await asyncio.to_thread(function) if is_heavy else function()

    async def send(self, request: httpx.Request, *, is_streamed: bool) -> httpx.Response:
        """Send a request; return the response, fully read unless it is streamed."""
        return await self.http.send(request, stream=is_streamed)

    async def lines(self, response: httpx.Response) -> AsyncGenerator[str]:
        """Yield the lines of a streamed response."""
        async for line in response.aiter_lines():
            yield line

    async def pieces(self, response: httpx.Response) -> AsyncGenerator[bytes]:
        """Yield the bytes of a streamed response."""
        async for piece in response.aiter_bytes():
            yield piece

    async def read(self, response: httpx.Response) -> None:
        """Read a streamed response to its end."""
        await response.aread()

    async def end(self, response: httpx.Response) -> None:
        """Close a streamed response."""
        await response.aclose()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class _AsyncBodyStream(httpx.AsyncByteStream):
    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = iter(self._pieces)
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            yield piece


class AsyncClient(Calls, AsyncCaller):
    """Calls a modserve server with ``await``; has the methods and arguments of ``Client``."""

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8000",
        timeout_seconds: float | None = 60.0,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        key: str | None = None,
        retries: int = 2,
    ) -> None:
        self._http = httpx.AsyncClient(transport=transport, **http_options(base_url, key))
        super().__init__(Exchange(AsyncTransport(self._http), timeout_seconds, retries))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
