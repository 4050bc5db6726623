"""Requests with many numbers in their JSON: another process turns these into binary tensors."""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson

from app.api.decoder_pool import DecoderPool
from app.api.decoding import Decoded
from app.api.v2.infer_request import InferHeader, parse_header, to_header
from app.errors.tree import Invalid
from app.link.slots import Piece

__all__ = ["as_binary", "read_large"]

_MOST_BESIDE = 1 << 16
"""Bytes of JSON that may remain besides the numbers; the server parses them again."""


async def read_large(pool: DecoderPool, text: bytes) -> InferHeader:
    """Read the JSON of a request in another process; raise what is wrong with it."""
    work = {"op": "function", "function": f"{as_binary.__module__}:{as_binary.__qualname__}"}
    decoded = await pool.decode(work, text)
    header = to_header(decoded.plain["header"])
    # Back to what the client sent: these tensors were in its JSON, and do not follow it.
    sizes, inline = list(header.sizes), {}
    data, at = decoded.pieces[0], 0
    for position in decoded.plain["inline"]:
        size = sizes[position]
        assert size is not None
        inline[position], sizes[position] = memoryview(data)[at : at + size], None
        at += size
    return dataclasses.replace(header, sizes=tuple(sizes), inline=inline)


def as_binary(body: bytes) -> Decoded:
    """Return a request's JSON with its numbers replaced by binary tensors, and those tensors."""
    plain = parse_header(body)
    header = to_header(plain)
    named = {name: plain[name] for name in ("id", "parameters", "outputs") if name in plain}
    inputs = [_announced(one, header, n) for n, one in enumerate(plain["inputs"])]
    small = named | {"inputs": inputs}
    try:
        size = len(orjson.dumps(small))
    except TypeError as error:  # ``json`` reads longer integers, and lone surrogates in strings
        raise Invalid("parameters", "values", f"values that JSON can express ({error})") from None
    if size > _MOST_BESIDE:
        raise Invalid("body", "large members other than data", f"at most {_MOST_BESIDE:,} bytes")
    positions = sorted(header.inline)
    pieces: list[Piece] = [header.inline[position] for position in positions]
    return Decoded({"header": small, "inline": positions}, pieces)


def _announced(tensor: dict[str, Any], header: InferHeader, position: int) -> dict[str, Any]:
    size = header.sizes[position]
    if size is None:
        size = len(header.inline[position])
    named = {name: tensor[name] for name in ("name", "datatype", "shape")}
    return named | {"parameters": {"binary_data_size": size}}
