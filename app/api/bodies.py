"""Reading request bodies: limited, strict, with errors that name the field."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import Request

from app.domain.codec import from_plain
from app.errors import Invalid, TooLarge, UnsupportedMedia
from app.settings import Settings
from app.tensors.codec import JSON, media_type
from app.tensors.json_ import parse_json

__all__ = ["announced_bytes", "beside_the_loop", "read_body", "read_json", "read_object"]

T = TypeVar("T")

_FEW_BYTES = 1 << 17


def announced_bytes(request: Request) -> int | None:
    """Return ``Content-Length``, None where it is absent or no number."""
    text = request.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


async def read_body(request: Request) -> bytes:
    """Return the whole body; raise TooLarge as soon as it is over the limit."""
    settings: Settings = request.app.state.settings
    limit = settings.max_body_bytes
    declared = announced_bytes(request)
    if declared is not None and declared > limit:
        raise TooLarge("body", got=declared, limit=limit, setting="MODSERVE_MAX_BODY_BYTES")
    chunks = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise TooLarge("body", got=None, limit=limit, setting="MODSERVE_MAX_BODY_BYTES")
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def beside_the_loop(size: int, work: Callable[[], T]) -> T:
    """Do what takes time with so many bytes: here where they are few, else in a thread.

    A thread costs a prediction of one image a tenth of a millisecond; a large body would keep all
    other requests waiting.
    """
    return work() if size <= _FEW_BYTES else await asyncio.to_thread(work)


async def read_json(request: Request) -> Any:
    """Return the parsed JSON body; an empty body is an empty object."""
    body = await read_body(request)
    kind = media_type(request.headers.get("content-type"))
    # curl sends forms unless told otherwise; what parses as JSON was meant as JSON.
    if body and kind not in (JSON, "application/x-www-form-urlencoded", "text/plain"):
        raise UnsupportedMedia(kind, [JSON])
    return await beside_the_loop(len(body), lambda: parse_json(body)) if body else {}


async def read_object(request: Request, cls: type[T]) -> T:
    """Return the JSON body as a domain value; every field at fault is named."""
    parsed = await read_json(request)
    if not isinstance(parsed, dict):
        raise Invalid("body", parsed, "a JSON object")
    size = announced_bytes(request) or 0
    return await beside_the_loop(size, lambda: from_plain(cls, parsed))
