"""A call as a value: the request, and how its response is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, cast
from urllib.parse import quote

import httpx

from app.client.bodies import HEAVY_BYTES, Body, Progress
from app.client.transport import Transport

__all__ = [
    "Answering",
    "AsJson",
    "Items",
    "Pages",
    "Request",
    "at",
    "content",
    "nothing",
    "unread",
]

T = TypeVar("T")

_SAFE = frozenset({"GET", "HEAD", "PUT", "DELETE"})


def at(*parts: str | int) -> str:
    """Return the path of a resource; names in it may contain any characters."""
    return "/v1/" + "/".join(quote(str(part), safe="") for part in parts)


class Answering(Protocol):
    """What requests are sent through, such as ``app.client.exchange.Exchange``."""

    @property
    def transport(self) -> Transport:
        """The transport, which sends and waits."""

    async def answer(self, request: Request[Any]) -> httpx.Response:
        """Return the response to a request."""


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """One request.

    Attributes:
        verb: HTTP method.
        path: from the server's root.
        reads: makes the result from the response.
        body: what to send.
        query: query parameters; those that are None are left out.
        accept: media type of the response.
        headers: further headers.
        has_key: send an Idempotency-Key, which makes it safe to retry.
        is_safe: it may be retried although its method does not imply that.
        is_once: it must not be retried although its method would allow it.
        progress: called with the bytes sent so far, and the total.
    """

    verb: str
    path: str
    reads: Callable[[httpx.Response], T]
    _: KW_ONLY
    body: Body | None = None
    query: Mapping[str, Any] | None = None
    accept: str | None = None
    headers: Mapping[str, str] | None = None
    has_key: bool = False
    is_safe: bool = False
    is_once: bool = False
    progress: Progress | None = None

    @property
    def is_repeatable(self) -> bool:
        """Whether sending the request more than once is safe."""
        return not self.is_once and (self.verb in _SAFE or self.has_key or self.is_safe)

    async def make(self, exchange: Answering) -> T:
        """Send the request; return its result."""
        answer = await exchange.answer(self)
        is_heavy = len(answer.content) > HEAVY_BYTES
        return await exchange.transport.work(partial(self.reads, answer), is_heavy=is_heavy)


@dataclass(frozen=True, slots=True)
class Pages(Generic[T]):
    """A list that the server returns in pages.

    Attributes:
        path: of the list.
        item: type of the items.
        query: query parameters; those that are None are left out.
    """

    path: str
    item: type[T]
    query: Mapping[str, Any] | None = None

    async def make(self, exchange: Answering) -> list[T]:
        """Return the items of all pages."""
        items: list[T] = []
        cursor = None
        while True:
            where = {**(self.query or {}), "cursor": cursor}
            page = await Request("GET", self.path, AsJson(dict[str, Any]), query=where).make(
                exchange
            )
            items += page["items"]
            cursor = page.get("next_cursor")
            if cursor is None:
                return items


class AsJson(Generic[T]):
    """Reads JSON of a type, unchanged, so that fields added by a newer server are kept."""

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind

    def __call__(self, response: httpx.Response) -> T:
        return cast(T, response.json())


class Items(Generic[T]):
    """Reads the ``items`` of a list that fits on one page."""

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind

    def __call__(self, response: httpx.Response) -> list[T]:
        return cast(list[T], response.json()["items"])


def nothing(response: httpx.Response) -> None:
    """Ignore a response without content."""


def unread(response: httpx.Response) -> httpx.Response:
    """Return the response unread."""
    return response


def content(response: httpx.Response) -> bytes:
    """Return the bytes of a response."""
    return response.content
