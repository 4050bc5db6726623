"""A call of the server as a value: what is asked, and what the answer is read as."""

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
    "as_it_is",
    "at",
    "content",
    "nothing",
]

T = TypeVar("T")

_SAFE = frozenset({"GET", "HEAD", "PUT", "DELETE"})


def at(*parts: str | int) -> str:
    """Return the path of a resource, whatever characters the names in it have."""
    return "/v1/" + "/".join(quote(str(part), safe="") for part in parts)


class Answering(Protocol):
    """What requests are made through, such as ``app.client.exchange.Exchange``."""

    @property
    def transport(self) -> Transport:
        """What sends and waits."""

    async def answer(self, request: Request[Any]) -> httpx.Response:
        """Return the answer to a request."""


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """One request.

    Attributes:
        verb: of HTTP.
        path: from the server's root.
        reads: makes the result of the answer.
        body: what is sent.
        query: of the URL; what is None is left out.
        accept: media type of the answer.
        headers: others.
        has_key: an Idempotency-Key goes with it, so that it is done once no matter how often it is
            sent.
        is_safe: it may be sent twice though its verb does not say so.
        is_once: it may not, though its verb says so.
        progress: is told how much of the body is sent.
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
        """Whether it is no matter how often it is sent."""
        return not self.is_once and (self.verb in _SAFE or self.has_key or self.is_safe)

    async def make(self, exchange: Answering) -> T:
        """Make the request; return its result."""
        answer = await exchange.answer(self)
        is_heavy = len(answer.content) > HEAVY_BYTES
        return await exchange.transport.work(partial(self.reads, answer), is_heavy=is_heavy)


@dataclass(frozen=True, slots=True)
class Pages(Generic[T]):
    """A list that the server gives in pages.

    Attributes:
        path: of the list.
        item: type of what is in it.
        query: of the URL; what is None is left out.
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
    """Reads JSON of a type: as it came, so that what a newer server adds is there, too."""

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind

    def __call__(self, response: httpx.Response) -> T:
        return cast(T, response.json())


class Items(Generic[T]):
    """Reads a list that the server gives as ``items`` of one page, of this type of item."""

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind

    def __call__(self, response: httpx.Response) -> list[T]:
        return cast(list[T], response.json()["items"])


def nothing(response: httpx.Response) -> None:
    """Read an answer that has no content."""


def as_it_is(response: httpx.Response) -> httpx.Response:
    """Read nothing yet."""
    return response


def content(response: httpx.Response) -> bytes:
    """Read the bytes of an answer."""
    return response.content
