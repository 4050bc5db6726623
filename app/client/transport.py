"""What differs between the two clients, and its blocking variant."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from typing import Any, Protocol, TypeVar

import httpx

__all__ = ["BlockingTransport", "Transport", "finished", "iterated"]

T = TypeVar("T")


class Transport(Protocol):
    """Sends requests, reads responses, and sleeps."""

    @property
    def http(self) -> httpx.Client | httpx.AsyncClient:
        """The httpx client."""

    def carried(self, pieces: Iterable[bytes]) -> httpx.SyncByteStream | httpx.AsyncByteStream:
        """Return a stream of a body that is read from files."""

    async def work(self, function: Callable[[], T], *, is_heavy: bool) -> T:
        """Do CPU-bound work, such as encoding a body or decoding a response."""

    async def send(self, request: httpx.Request, *, is_streamed: bool) -> httpx.Response:
        """Send a request; return the response, fully read unless it is streamed."""

    def lines(self, response: httpx.Response) -> AsyncGenerator[str]:
        """Yield the lines of a streamed response."""

    def pieces(self, response: httpx.Response) -> AsyncGenerator[bytes]:
        """Yield the bytes of a streamed response."""

    async def read(self, response: httpx.Response) -> None:
        """Read a streamed response to its end."""

    async def end(self, response: httpx.Response) -> None:
        """Close a streamed response."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


class BlockingTransport:
    """The blocking transport: its coroutines never suspend."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http

    def carried(self, pieces: Iterable[bytes]) -> httpx.SyncByteStream:
        """Return a stream of a body that is read from files."""
        return _BodyStream(pieces)

    async def work(self, function: Callable[[], T], *, is_heavy: bool) -> T:
        """Do the work right away."""
        return function()

    async def send(self, request: httpx.Request, *, is_streamed: bool) -> httpx.Response:
        """Send a request; return the response, fully read unless it is streamed."""
        return self.http.send(request, stream=is_streamed)

    async def lines(self, response: httpx.Response) -> AsyncGenerator[str]:
        """Yield the lines of a streamed response."""
        for line in response.iter_lines():
            yield line

    async def pieces(self, response: httpx.Response) -> AsyncGenerator[bytes]:
        """Yield the bytes of a streamed response."""
        for piece in response.iter_bytes():
            yield piece

    async def read(self, response: httpx.Response) -> None:
        """Read a streamed response to its end."""
        response.read()

    async def end(self, response: httpx.Response) -> None:
        """Close a streamed response."""
        response.close()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class _BodyStream(httpx.SyncByteStream):
    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._pieces)


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine over ``BlockingTransport``, which never suspends; return its result."""
    # Run without an event loop, so that the synchronous client also works inside of one.
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError("a coroutine over the blocking transport was suspended")


def iterated(items: AsyncGenerator[T]) -> Iterator[T]:
    """Yield what an async generator over ``BlockingTransport`` yields."""
    try:
        while True:
            try:
                item = finished(items.__anext__())
            except StopAsyncIteration:
                return
            yield item
    finally:
        finished(items.aclose())
