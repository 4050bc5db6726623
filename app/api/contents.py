"""Responses with the content of tensors, sent while it is made if it is large."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from fastapi import Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from app.api.bodies import beside_the_loop
from app.api.exchanges import Body, LongBody
from app.tensors.content import Content

__all__ = ["content_response", "fast_body"]


async def content_response(
    make: Callable[[], Content], size: int, media_type: str | None, release: Callable[[], None]
) -> Response:
    """Return the response with a content.

    Args:
        make: returns the content; a small one is completed at once.
        size: bytes of the tensors that it is made of.
        media_type: None if the caller sets it.
        release: called once, when the tensors are no longer needed.
    """
    try:
        content, first = await beside_the_loop(size, lambda: _begun(make))
    except BaseException:
        release()
        raise
    if content.is_over:
        release()
        return Response(first, media_type=media_type)
    return _LongResponse(first, content, make, media_type, release)


async def fast_body(make: Callable[[], Content], release: Callable[[], None]) -> Body:
    """Return the body with a large content for the fast path.

    Args:
        make: returns the content.
        release: called once, when the tensors that it is made of are no longer needed.
    """
    try:
        content, first = await asyncio.to_thread(_begun, make)
    except BaseException:
        release()
        raise
    if not content.is_over:
        return LongBody(first, content, release)
    release()
    return first


def _begun(make: Callable[[], Content]) -> tuple[Content, memoryview]:
    content = make()
    return content, content.next_block()


class _LongResponse(StreamingResponse):
    """Sends a content block by block, no faster than the client reads."""

    def __init__(
        self,
        first: memoryview,
        content: Content,
        make: Callable[[], Content],
        media_type: str | None,
        release: Callable[[], None],
    ) -> None:
        super().__init__(_blocks(first, content), media_type=media_type)
        if content.size is not None:
            self.headers["Content-Length"] = str(content.size)
        self._make = make
        self._release = release

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; also if the client leaves, the tensors are released."""
        try:
            if scope["http_version"] == "1.0" and "Content-Length" not in self.headers:
                # That version has no chunks. It is made twice, rather than kept to be counted.
                size = await asyncio.to_thread(_size_of, self._make())
                self.headers["Content-Length"] = str(size)
                self.body_iterator = _blocks(memoryview(b""), self._make())
            await super().__call__(scope, receive, send)
        finally:
            self._release()


def _size_of(content: Content) -> int:
    size = 0
    while not content.is_over:
        size += len(content.next_block())
    return size


async def _blocks(first: memoryview, content: Content) -> AsyncIterator[memoryview]:
    yield first
    while not content.is_over:
        block = await asyncio.to_thread(content.next_block)
        if len(block):
            yield block
