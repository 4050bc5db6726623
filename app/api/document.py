"""The OpenAPI document as it is answered.

To make it takes as long as a third of the server's start, and few servers are ever asked for it:
it is made when somebody first asks, beside the event loop.
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
    """Made once; those who ask meanwhile wait for the same."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._content: bytes | None = None
        self._making: asyncio.Task[bytes] | None = None

    async def content(self) -> bytes:
        if self._content is None:
            if self._making is None or self._making.done():
                self._making = asyncio.create_task(asyncio.to_thread(self._make))
            self._content = await asyncio.shield(self._making)  # who asked first may hang up
        return self._content

    def _make(self) -> bytes:
        return orjson.dumps(self._app.openapi())
