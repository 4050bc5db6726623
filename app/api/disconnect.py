"""Work for a client is cancelled when the client hangs up."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect

__all__ = ["unless_hung_up"]

T = TypeVar("T")

_LOOK_SECONDS = 0.02
"""Shorter work is not worth watching the connection."""


async def unless_hung_up(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of the work; cancel it if the client, whose body was read, disconnects.

    Raises:
        ClientDisconnect: the client has disconnected.
    """
    task = asyncio.ensure_future(work)
    watch: asyncio.Future[None] | None = None
    try:
        done, _ = await asyncio.wait({task}, timeout=_LOOK_SECONDS)
        if not done:
            watch = asyncio.ensure_future(_hung_up(request))
            await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        for one in (task, watch):
            if one is not None and not one.done():
                one.cancel()


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
