"""Reading request bodies: limited, strict, with errors that name the field."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import orjson
from fastapi import Request

from app.api.body_memory import BodyMemory
from app.api.decoder_pool import DecoderPool
from app.api.decoding import Work
from app.api.v1.requests import ModuleBody, canonical_symbol
from app.domain.codec import from_plain, to_plain
from app.errors.tree import Invalid, TooLarge, UnsupportedMedia
from app.settings import Settings
from app.tensors.codec import JSON, media_type
from app.tensors.json_bodies import parse_json

__all__ = [
    "FEW_BYTES",
    "announced_bytes",
    "beside_the_loop",
    "canonical_text",
    "check_object",
    "decoders",
    "read_body",
    "read_change",
    "read_json",
    "read_module_body",
    "read_object",
]

T = TypeVar("T")

FEW_BYTES = 1 << 14
"""JSON up to this size, however hostile, is parsed or refused within milliseconds."""


def announced_bytes(request: Request) -> int | None:
    """Return ``Content-Length``, None if it is absent or not a number."""
    text = request.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


async def read_body(request: Request, limit: int | None = None) -> bytes:
    """Return the whole body; raise TooLarge as soon as it is over the limit.

    Args:
        limit: maximum number of bytes; None takes that of the settings.
    """
    settings: Settings = request.app.state.settings
    limit, setting = limit or settings.max_body_bytes, "MODSERVE_MAX_BODY_BYTES"
    if limit < settings.max_body_bytes:
        setting = "MODSERVE_MAX_JSON_BYTES"
    declared = announced_bytes(request)
    if declared is not None and declared > limit:
        raise TooLarge("body", got=declared, limit=limit, setting=setting)
    memory: BodyMemory = request.app.state.body_memory
    chunks = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise TooLarge("body", got=None, limit=limit, setting=setting)
        memory.take(request, len(chunk))
        chunks.append(chunk)
    if len(chunks) == 1:
        return chunks[0]
    # For large bodies ``bytes.join`` releases the interpreter's lock.
    return await beside_the_loop(size, lambda: b"".join(chunks))


async def beside_the_loop(size: int, work: Callable[[], T], few: int = FEW_BYTES) -> T:
    """Process this many bytes: here if they are few, else in a thread.

    A thread costs a prediction of one image a tenth of a millisecond; a large body would keep all
    other requests waiting.
    """
    return work() if size <= few else await asyncio.to_thread(work)


def decoders(request: Request) -> DecoderPool:
    """Return the processes that decode large bodies."""
    pool: DecoderPool = request.app.state.decoders
    return pool


async def read_json(request: Request, check: Work) -> Any:
    """Return the parsed JSON body; an empty body is an empty object.

    Args:
        check: how another process validates a large body.
    """
    settings: Settings = request.app.state.settings
    body = await _read_stated_json(request, settings.max_json_bytes)
    # Hostile JSON is refused there. What passes is small enough and quick to parse once more.
    if len(body) > FEW_BYTES:
        await decoders(request).decode(check, body)
    return parse_json(body) if body else {}


async def read_object(request: Request, cls: type[T]) -> T:
    """Return the JSON body as a domain value; an error names every invalid field."""
    return _object(cls, await read_json(request, _check(cls)))


async def read_change(request: Request, cls: type[T]) -> Callable[[T], T]:
    """Return a function that applies the fields of a JSON body to a domain value.

    Fields that are not given keep their values; null stands for None.
    """
    plain = await read_json(request, _check(cls))
    _object(cls, plain)
    return lambda value: from_plain(cls, to_plain(value) | plain)


async def check_object(request: Request, cls: type[T], plain: dict[str, Any]) -> T:
    """Return plain values, which were not sent as JSON, as a domain value."""
    text = orjson.dumps(plain)
    if len(text) > FEW_BYTES:
        await decoders(request).decode(_check(cls), text)
    return from_plain(cls, plain)


async def read_module_body(request: Request) -> ModuleBody:
    """Return a module's JSON body; large symbols are parsed in another process."""
    body = await _read_stated_json(request, None, or_form=True)
    if len(body) <= FEW_BYTES:
        return _object(ModuleBody, parse_json(body) if body else {})
    decoded = await decoders(request).decode({"op": "module"}, body)
    texts, begin, data = {}, 0, decoded.pieces[0]
    for key, size in decoded.plain["symbols"]:
        texts[key] = str(data[begin : begin + size], "utf-8")
        begin += size
    return from_plain(ModuleBody, decoded.plain["fields"]).with_texts(texts)


async def canonical_text(request: Request, text: bytes, field: str) -> str:
    """Return the canonical JSON of a symbol's text."""
    if len(text) <= FEW_BYTES:
        return canonical_symbol(text, field)
    decoded = await decoders(request).decode({"op": "symbol", "field": field}, text)
    return str(decoded.pieces[0], "utf-8")


def _object(cls: type[T], parsed: Any) -> T:
    if not isinstance(parsed, dict):
        raise Invalid("body", parsed, "a JSON object")
    return from_plain(cls, parsed)


async def _read_stated_json(request: Request, limit: int | None, *, or_form: bool = False) -> bytes:
    body = await read_body(request, limit)
    stated = request.headers.get("content-type")
    kind = media_type(stated)
    # curl sends forms unless told otherwise; what parses as JSON was meant as JSON.
    if body and kind not in (JSON, "application/x-www-form-urlencoded", "text/plain"):
        raise UnsupportedMedia(stated, [JSON, "multipart/form-data"] if or_form else [JSON])
    return body


def _check(cls: type) -> Work:
    return {"op": "fields", "cls": f"{cls.__module__}:{cls.__qualname__}"}
