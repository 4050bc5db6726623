"""How a client makes calls: one waits for the results, the other returns awaitables."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Iterator
from typing import Any, Protocol, TypeVar

from app.client.exchange import Exchange
from app.client.transport import finished, iterated

__all__ = ["AsyncCaller", "Call", "Caller", "Followed"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Call(Protocol[T_co]):
    """A call with one result."""

    async def make(self, exchange: Exchange) -> T_co:
        """Make the call; return the result."""


class Followed(Protocol[T_co]):
    """A call with a stream of results."""

    def follow(self, exchange: Exchange) -> AsyncGenerator[T_co]:
        """Make the call; yield the results as they arrive."""


class Caller:
    """Makes calls and waits for their results."""

    _exchange: Exchange

    def _made(self, call: Call[T]) -> T:
        return finished(call.make(self._exchange))

    def _followed(self, call: Followed[T]) -> Iterator[T]:
        return iterated(call.follow(self._exchange))


class AsyncCaller:
    """Makes calls whose results are awaited."""

    _exchange: Exchange

    def _made(self, call: Call[T]) -> Coroutine[Any, Any, T]:
        return call.make(self._exchange)

    def _followed(self, call: Followed[T]) -> AsyncGenerator[T]:
        return call.follow(self._exchange)
