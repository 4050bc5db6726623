"""Small requests that are answered ahead of the router: what one is, and how it is answered.

A client that predicts sends the same head thousands of times. What a head asks for is found out
once; with each body that follows nothing is left but to answer it.
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
        method, path: as they came; the path without the query.
        query: what follows the question mark.
        headers: fields by lower-case name; those that came more than once joined by commas.
        request_id: given to it, or by it.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]


class Pending(Protocol):
    """An answer on its way."""

    def withdraw(self) -> None:
        """Withdraw it, because nobody waits for it any more."""
        ...


class Later:
    """An answer that something has to be made for before it can be asked for."""

    def __init__(self, work: Coroutine[Any, Any, Pending | None]) -> None:
        """Begin.

        Args:
            work: makes it, asks, and answers itself what goes wrong.
        """
        self._pending: Pending | None = None
        self._task = asyncio.ensure_future(self._run(work))

    async def _run(self, work: Coroutine[Any, Any, Pending | None]) -> None:
        self._pending = await work

    def withdraw(self) -> None:
        """Withdraw it, because nobody waits for it any more."""
        self._task.cancel()
        if self._pending is not None:
            self._pending.withdraw()


Respond: TypeAlias = Callable[[int, bytes, bytes], None]
"""Takes status, header lines (each with its end of line) and body of an answer, once."""

Begin: TypeAlias = Callable[[bytes, str, Respond], Pending | None]
"""Begins to answer: takes body, request id and what to respond with, which may be called before
this returns; then there is nothing to withdraw."""

Opener: TypeAlias = Callable[[RequestHead], Begin | None]
"""Returns how requests with this head are answered; None if they go to the router."""

Admit: TypeAlias = Callable[[Mapping[str, Any], str, Begin], Begin | None]
"""Takes the ASGI scope of a head, its route and how requests are answered; returns how those are
answered that its API key may make, None if it may make none."""
