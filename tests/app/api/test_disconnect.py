from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastapi import Request
from starlette.requests import ClientDisconnect

from app.api.disconnect import unless_hung_up


def request(messages: asyncio.Queue[dict[str, Any]]) -> Request:
    return Request({"type": "http", "method": "POST", "path": "/", "headers": []}, messages.get)


async def test_work_that_finishes_immediately_is_returned():
    async def work() -> int:
        return 3

    assert await unless_hung_up(request(asyncio.Queue()), work()) == 3


async def test_work_continues_while_the_client_is_connected():
    async def work() -> int:
        await asyncio.sleep(0.1)
        return 3

    assert await unless_hung_up(request(asyncio.Queue()), work()) == 3


async def test_work_is_cancelled_when_the_client_disconnects():
    messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    messages.put_nowait({"type": "http.disconnect"})
    with pytest.raises(ClientDisconnect):
        await unless_hung_up(request(messages), work())
    await asyncio.wait_for(ended.wait(), 60)


async def test_exceptions_of_the_work_propagate():
    async def work() -> None:
        await asyncio.sleep(0.05)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await unless_hung_up(request(asyncio.Queue()), work())
