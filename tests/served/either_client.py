"""A common interface to both clients: one test awaits every method, also of the sync one."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx

from app.client import AsyncClient, Client

__all__ = ["KINDS", "EitherClient", "either"]

KINDS = ("Client", "AsyncClient")


class EitherClient:
    """A client of either kind that records its calls.

    Attributes:
        client: the sync or async client.
        called: names of the methods called so far.
        calls: the descriptions of all calls, each with the server's answers.
    """

    def __init__(self, client: Client | AsyncClient) -> None:
        self.client = client
        self.called: set[str] = set()
        self.calls: list[tuple[Any, list[httpx.Response]]] = []
        for name in ("_made", "_followed"):
            setattr(client, name, self._remembering(getattr(client, name)))
        hook = self._remember_later if isinstance(client, AsyncClient) else self._remember
        client._http.event_hooks["response"].append(hook)

    def _remembering(self, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def made(call: Any) -> Any:
            self.calls.append((call, []))
            return make(call)

        return made

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.client, name)
        self.called.add(name)

        async def call(*args: Any, **options: Any) -> Any:
            result = method(*args, **options)
            return await result if inspect.isawaitable(result) else result

        return call

    async def each(self, name: str, *args: Any, **options: Any) -> AsyncIterator[Any]:
        """Yield what an iterator of the client yields."""
        self.called.add(name)
        found = getattr(self.client, name)(*args, **options)
        if isinstance(self.client, AsyncClient):
            async with aclosing(found):
                async for one in found:
                    yield one
        else:
            for one in found:
                yield one

    async def _remember_later(self, answer: httpx.Response) -> None:
        self._remember(answer)

    def _remember(self, answer: httpx.Response) -> None:
        if self.calls:
            self.calls[-1][1].append(answer)


@asynccontextmanager
async def either(
    kind: str,
    url: str = "http://test",
    answer: Callable[[httpx.Request], httpx.Response] | None = None,
    **options: Any,
) -> AsyncIterator[EitherClient]:
    """A client of the given kind; a function may answer in place of a server."""
    if answer is not None:
        options["transport"] = httpx.MockTransport(answer)
    if kind == "Client":
        with Client(url, **options) as client:
            yield EitherClient(client)
    else:
        async with AsyncClient(url, **options) as client:
            yield EitherClient(client)
