"""What the protocol's requests share: finding their models, and compressed bodies."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import Request

from app.api.bodies import beside_the_loop, read_body
from app.api.body_memory import BodyMemory
from app.api.v2.codings import decompress, known_coding
from app.domain.module import ModuleRecord
from app.errors.tree import Invalid
from app.services.services import Services
from app.settings import Settings
from app.tensors.json_bodies import parse_json

__all__ = ["known_model", "model_now", "read_content", "read_parameters"]

_FEW_COMPRESSED_BYTES = 1 << 10  # which may unpack to a thousand times as much


async def known_model(services: Services, model: str) -> ModuleRecord:
    """Return a model's record, perhaps slightly out of date; raise NotFound."""
    return await services.access.known(model)


async def model_now(services: Services, model: str) -> ModuleRecord:
    """Return a model's current record; raise NotFound."""
    return await services.access.record(model)


async def read_content(request: Request, limit: int | None = None) -> bytes:
    """Return the body of a request, decompressed.

    The Content-Type is ignored: clients send none, or that of forms.

    Raises:
        UnsupportedCoding: its compression is not supported.
        TooLarge: it exceeds the limit, compressed or decompressed.
        Malformed: it cannot be decompressed.
    """
    coding = known_coding(request.headers.get("content-encoding"))
    body = await read_body(request, limit)
    if coding is None:
        return body
    settings: Settings = request.app.state.settings
    setting = "MODSERVE_MAX_BODY_BYTES" if limit is None else "MODSERVE_MAX_JSON_BYTES"
    unpack = partial(decompress, body, coding, limit or settings.max_body_bytes, setting)
    content = await beside_the_loop(len(body), unpack, _FEW_COMPRESSED_BYTES)
    memory: BodyMemory = request.app.state.body_memory
    memory.take(request, len(content))  # ``read_body`` counted only the compressed bytes
    return content


async def read_parameters(request: Request, members: tuple[str, ...]) -> dict[str, Any]:
    """Return the members of a small JSON body, or an empty one; raise Invalid for unknown ones."""
    settings: Settings = request.app.state.settings
    body = await read_content(request, settings.max_json_bytes)
    plain = parse_json(body) if body.strip() else {}
    if not isinstance(plain, dict):
        raise Invalid("body", plain, "a JSON object")
    for name in plain:
        if name not in members:
            raise Invalid(name, plain[name], f"no members but {', '.join(members)}")
    return plain
