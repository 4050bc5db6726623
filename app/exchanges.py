"""Small requests that are answered without the router.

A client that predicts sends the same head thousands of times. A head is parsed once; for each
further request with that head only the body needs processing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

__all__ = ["Admit", "Begin", "Later", "Opener", "Pending", "RequestHead", "Respond"]


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
    """A pending answer."""

    def withdraw(self) -> None:
        """Cancel it, because nobody waits for it any more."""
        ...


class Later:
    """A pending answer that needs asynchronous preparation."""

    def __init__(self, work: Coroutine[Any, Any, Pending | None]) -> None:
        """Begin.

        Args:
            work: prepares and requests the answer, and answers errors itself.
        """
        self._pending: Pending | None = None
        self._task = asyncio.ensure_future(self._run(work))

    async def _run(self, work: Coroutine[Any, Any, Pending | None]) -> None:
        self._pending = await work

    def withdraw(self) -> None:
        """Cancel it, because nobody waits for it any more."""
        self._task.cancel()
        if self._pending is not None:
            self._pending.withdraw()


Respond: TypeAlias = Callable[[int, bytes, bytes], None]
"""Takes status, header lines (each with its end of line) and body of an answer, once."""

Begin: TypeAlias = Callable[[bytes, str, Respond], Pending | None]
"""Begins to answer: takes body, request id and a function to respond, which may be called before
this returns; then there is nothing to cancel.
"""

Opener: TypeAlias = Callable[[RequestHead], Begin | None]
"""Returns the handler of requests with this head; None if they go to the router."""

Admit: TypeAlias = Callable[[Mapping[str, Any], str, Begin], Begin | None]
"""Takes the ASGI scope of a head, its route and its handler; returns a handler that enforces the
limits of its API key, None if the key may make no such requests.
"""
