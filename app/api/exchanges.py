"""A shortcut for small requests, which bypasses the router.

A client that predicts sends the same head thousands of times. A head is parsed only once; after
that, only the bodies of its requests need processing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

__all__ = [
    "Admit",
    "Begin",
    "BeginFor",
    "Body",
    "Client",
    "Later",
    "LongBody",
    "Opener",
    "Pending",
    "RequestHead",
    "Respond",
]


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The head of a request.

    Attributes:
        method, path: as sent; the path without the query.
        query: what follows the question mark.
        headers: fields by lower-case name; repeated ones joined by commas.
        request_id: sent by the client, or assigned.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]


class Pending(Protocol):
    """A pending response."""

    def withdraw(self) -> None:
        """Cancel it, because nobody is waiting for it any longer."""
        ...


class Later:
    """A pending response that needs asynchronous preparation."""

    def __init__(self, work: Coroutine[Any, Any, Pending | None]) -> None:
        """Start the preparation.

        Args:
            work: prepares and sends the response, also in case of an error.
        """
        self._pending: Pending | None = None
        self._task = asyncio.ensure_future(self._run(work))

    async def _run(self, work: Coroutine[Any, Any, Pending | None]) -> None:
        self._pending = await work

    def withdraw(self) -> None:
        """Cancel it, because nobody is waiting for it any longer."""
        self._task.cancel()
        if self._pending is not None:
            self._pending.withdraw()


class Blocks(Protocol):
    """A body that is made while it is sent.

    Attributes:
        size: number of bytes, None if only making them tells.
        is_over: True when nothing is left.
    """

    size: int | None
    is_over: bool

    def next_block(self) -> memoryview:
        """Return the next bytes, in any thread; they may be none."""
        ...


@dataclass(frozen=True, slots=True)
class LongBody:
    """A body that is too large to be made at once.

    Attributes:
        first: its beginning.
        rest: what follows.
        release: called once, when it was sent or given up.
    """

    first: memoryview
    rest: Blocks
    release: Callable[[], None]


Body: TypeAlias = bytes | memoryview | LongBody

Respond: TypeAlias = Callable[[int, bytes, Body], None]
"""Takes the status, header lines (each with its line end) and body of the response, once."""

Begin: TypeAlias = Callable[[bytes, str, Respond], Pending | None]
"""Starts to answer: takes the body, the request id and a function to respond.

It returns None if it has responded already, and there is nothing to cancel.
"""

Opener: TypeAlias = Callable[[RequestHead], Begin | None]
"""Returns the handler for requests with this head; None sends them to the router."""

Client: TypeAlias = tuple[str, int] | None
"""Address and port that a connection comes from."""

BeginFor: TypeAlias = Callable[[bytes, str, Respond, Client], Pending | None]
"""A Begin that takes the client, too."""

Admit: TypeAlias = Callable[[Mapping[str, Any], str, Begin], BeginFor | None]
"""Takes the ASGI scope of a head, its route and its handler; returns a handler that enforces the
limits of its API key, None if the key may make no such requests.
"""
