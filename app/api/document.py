"""The OpenAPI document as served.

Building it takes a third of the time that the server needs to start, and few servers are asked for
it: therefore it is built at the first request, in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import orjson
from fastapi import FastAPI, Request, Response

from app.tensors.codec import JSON

__all__ = ["document_endpoint"]


def document_endpoint(app: FastAPI) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint that answers with the document of an application."""
    document = _Document(app)

    async def openapi(request: Request) -> Response:
        return Response(await document.content(), media_type=JSON)

    return openapi


class _Document:
    """Built once; concurrent requests wait for the same document."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._content: bytes | None = None
        self._making: asyncio.Task[bytes] | None = None

    async def content(self) -> bytes:
        if self._content is None:
            if self._making is None or self._making.done():
                self._making = asyncio.create_task(asyncio.to_thread(self._make))
            self._content = await asyncio.shield(self._making)  # the first client may hang up
        return self._content

    def _make(self) -> bytes:
        return orjson.dumps(self._app.openapi())
