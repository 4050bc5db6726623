"""What a client that waits and one that is awaited differ in, and the one that waits."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from typing import Any, Protocol, TypeVar

import httpx

__all__ = ["Blocking", "Transport", "finished", "iterated"]

T = TypeVar("T")


class Transport(Protocol):
    """Sends requests, reads answers and lets time pass."""

    @property
    def http(self) -> httpx.Client | httpx.AsyncClient:
        """What makes the requests."""

    def carried(self, pieces: Iterable[bytes]) -> httpx.SyncByteStream | httpx.AsyncByteStream:
        """Return the stream of a body that is read from files."""

    async def work(self, function: Callable[[], T], *, is_heavy: bool) -> T:
        """Do what a processor has to do: encode a body, or decode an answer."""

    async def send(self, request: httpx.Request, *, is_streamed: bool) -> httpx.Response:
        """Send a request; return the answer, read to its end unless it is streamed."""

    def lines(self, response: httpx.Response) -> AsyncGenerator[str]:
        """Yield the lines of a streamed answer."""

    def pieces(self, response: httpx.Response) -> AsyncGenerator[bytes]:
        """Yield the bytes of a streamed answer."""

    async def read(self, response: httpx.Response) -> None:
        """Read a streamed answer to its end."""

    async def end(self, response: httpx.Response) -> None:
        """End a streamed answer."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


class Blocking:
    """Waits where it is: none of its coroutines ever stops."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http

    def carried(self, pieces: Iterable[bytes]) -> httpx.SyncByteStream:
        """Return the stream of a body that is read from files."""
        return _Carried(pieces)

    async def work(self, function: Callable[[], T], *, is_heavy: bool) -> T:
        """Do it here."""
        return function()

    async def send(self, request: httpx.Request, *, is_streamed: bool) -> httpx.Response:
        """Send a request; return the answer, read to its end unless it is streamed."""
        return self.http.send(request, stream=is_streamed)

    async def lines(self, response: httpx.Response) -> AsyncGenerator[str]:
        """Yield the lines of a streamed answer."""
        for line in response.iter_lines():
            yield line

    async def pieces(self, response: httpx.Response) -> AsyncGenerator[bytes]:
        """Yield the bytes of a streamed answer."""
        for piece in response.iter_bytes():
            yield piece

    async def read(self, response: httpx.Response) -> None:
        """Read a streamed answer to its end."""
        response.read()

    async def end(self, response: httpx.Response) -> None:
        """End a streamed answer."""
        response.close()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class _Carried(httpx.SyncByteStream):
    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._pieces)


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine over ``Blocking`` to its end, which is in one go; return its result."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError("a coroutine over a transport that waits has stopped at an await")


def iterated(items: AsyncGenerator[T]) -> Iterator[T]:
    """Yield what a generator over ``Blocking`` yields."""
    try:
        while True:
            try:
                item = finished(items.__anext__())
            except StopAsyncIteration:
                return
            yield item
    finally:
        finished(items.aclose())
