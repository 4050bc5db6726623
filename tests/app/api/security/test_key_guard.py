"""The key guard while an answer is in progress."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from app.api.audit import Audit
from app.api.security.key_guard import KeyGuard
from app.errors.refusals import Unauthorized
from app.files.key_file import KeyFile
from app.services.access.key_ring import KeyRing
from app.services.access.sessions import Sessions
from served.keys import add_key, revoke_key

EVENTS, PLAIN = "text/event-stream", "application/octet-stream"


class Asking:
    """A request to an application that sends one line and then stays silent."""

    def __init__(self, ring: KeyRing, key: str, media_type: str) -> None:
        self.sent: list[Message] = []
        self.began = asyncio.Event()
        self.hang_up = asyncio.Event()
        self._messages = [{"type": "http.request", "body": b"", "more_body": False}]
        self._media_type = media_type
        headers = [(b"x-api-key", key.encode())]
        scope = {"type": "http", "method": "GET", "path": "/v1/events", "headers": headers}
        guarded = KeyGuard(self._application, ring, Sessions(ring), Audit())
        self.task = asyncio.create_task(guarded(scope, self._receive, self._send))

    async def _application(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def silence() -> AsyncIterator[bytes]:
            yield b"retry: 1000"
            await asyncio.Event().wait()

        answer = StreamingResponse(silence(), media_type=self._media_type)
        await answer(scope, receive, send)

    async def _receive(self) -> Message:
        if self._messages:
            return self._messages.pop()
        await self.hang_up.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.sent.append(message)
        if message.get("body"):
            self.began.set()


@pytest.fixture
async def ring(tmp_path: Path) -> AsyncIterator[KeyRing]:
    add_key(tmp_path, "other", "read")
    ring = KeyRing(KeyFile(tmp_path))
    ring.open()
    yield ring
    await ring.stop()


async def test_a_silent_event_stream_ends_with_its_key(ring: KeyRing, tmp_path: Path) -> None:
    key = add_key(tmp_path, "follower", "read")
    ring.start()
    asked = await until_taken(ring, key, EVENTS)
    revoke_key(tmp_path, "other")
    changed = ring.next_change()
    await asyncio.wait_for(changed, 60)
    await asyncio.sleep(0)
    assert not asked.task.done(), "it does not end with another key"
    revoke_key(tmp_path, "follower")
    async with asyncio.timeout(60):  # nothing is sent in the meantime that would trigger the check
        await asked.task
    assert asked.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    assert not asked.hang_up.is_set()


async def test_other_answers_continue(ring: KeyRing, tmp_path: Path) -> None:
    key = add_key(tmp_path, "reader", "read")
    ring.start()
    asked = await until_taken(ring, key, PLAIN)
    revoke_key(tmp_path, "reader")
    await asyncio.wait_for(ring.next_change(), 60)
    await asyncio.sleep(0)
    assert not asked.task.done()
    asked.hang_up.set()
    await asyncio.wait_for(asked.task, 60)


async def until_taken(ring: KeyRing, key: str, media_type: str) -> Asking:
    """Ask once the ring knows the key."""
    async with asyncio.timeout(60):
        while not is_known(ring, key):
            await ring.next_change()
        asked = Asking(ring, key, media_type)
        await asked.began.wait()
    assert asked.sent[0]["status"] == 200
    return asked


def is_known(ring: KeyRing, key: str) -> bool:
    try:
        ring.identify([key])
    except Unauthorized:
        return False
    return True
