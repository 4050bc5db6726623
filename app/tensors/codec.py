"""Named tensors to and from HTTP bodies: JSON, npy, npz and safetensors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy.typing as npt
import orjson

from app.errors.quoting import brief
from app.errors.tree import Invalid, UnsupportedMedia
from app.tensors.content import Content
from app.tensors.json_bodies import check_depth, load_json
from app.tensors.json_tensors import read_tensor
from app.tensors.npy import npy_pieces, npz_pieces, read_npy, read_npz
from app.tensors.safetensors_format import read_safetensors, safetensors_pieces
from app.tensors.writing import json_pieces

__all__ = [
    "JSON",
    "MEDIA_TYPES",
    "NPY",
    "NPZ",
    "SAFETENSORS",
    "Tensors",
    "body_type",
    "content_of",
    "decode",
    "encode",
    "is_unstated",
    "media_type",
    "negotiate",
    "read_members",
    "take_inputs",
]

HostArray = npt.NDArray[Any]
Tensors = dict[str, HostArray]

JSON = "application/json"
NPY = "application/x-npy"
NPZ = "application/x-npz"
SAFETENSORS = "application/x-safetensors"

MOST_TENSORS = 10_000
_MOST_MEMBERS = 32  # members beside the tensors; no route knows that many

MEDIA_TYPES = (JSON, NPY, NPZ, SAFETENSORS)

_ALIASES = {
    "application/npy": NPY,
    "application/npz": NPZ,
    "application/zip": NPZ,
    "application/safetensors": SAFETENSORS,
    "application/vnd.safetensors": SAFETENSORS,
}

_UNSTATED = ("", "application/x-www-form-urlencoded", "application/octet-stream", "text/plain")
"""Sent by programs that were not told the type; curl labels every body a form."""


_ANY = "*/*"
_QUALITY = re.compile(r"\s*q\s*=\s*([01](?:\.[0-9]*)?)\s*", re.IGNORECASE)


def media_type(header: str | None) -> str:
    """Return the plain media type of a Content-Type header; JSON if there is none."""
    plain = (header or JSON).partition(";")[0].strip().lower()
    return _ALIASES.get(plain, plain)


def is_unstated(header: str | None) -> bool:
    """Return whether a Content-Type says nothing about the body."""
    return not header or media_type(header) in _UNSTATED


def body_type(header: str | None, body: bytes) -> str:
    """Return the media type of a body: the declared one, else the one its first bytes reveal."""
    stated = media_type(header) if header else ""
    if stated not in _UNSTATED:
        return stated
    if body.startswith(b"\x93NUMPY"):
        return NPY
    if body.startswith(b"PK\x03\x04"):
        return NPZ
    # A safetensors file starts with the length of its header, which is JSON. The first 8 bytes of a
    # text would be a length beyond the end of any body.
    if body[8:9] == b"{" and int.from_bytes(body[:8], "little") <= len(body):
        return SAFETENSORS
    return JSON


@lru_cache(maxsize=256)
def negotiate(accept: str | None, single: bool = True) -> str:
    """Choose the media type of a response from an Accept header; JSON if it names none of ours.

    Args:
        accept: the header.
        single: whether the response is a single array, as npy requires.
    """
    best, best_rank = JSON, (0.0, False)
    for kind, quality in _accepted(accept or ""):
        if kind == _ANY:
            kind, is_named = JSON, False
        else:
            is_named = True
        is_possible = kind in MEDIA_TYPES and (single or kind != NPY)
        if is_possible and quality and (quality, is_named) > best_rank:
            best, best_rank = kind, (quality, is_named)
    return best


def _accepted(accept: str) -> Iterator[tuple[str, float]]:
    """Yield the media types of an Accept header, each with its quality (RFC 9110, 12.5.1)."""
    for part in accept.split(","):
        kind, *parameters = part.split(";")
        if not kind.strip():
            continue
        found = [_QUALITY.fullmatch(one) for one in parameters]
        qualities = [float(one[1]) for one in found if one is not None]
        yield media_type(kind), qualities[0] if qualities else 1.0


def decode(
    content_type: str | None,
    body: bytes,
    *,
    names: Sequence[str],
    limit: int,
    setting: str,
    dtypes: Mapping[str, str] | None = None,
    needs_inputs: bool = True,
) -> tuple[Tensors, dict[str, Any]]:
    """Read named tensors from a body.

    JSON is ``{"inputs": {name: tensor, ...}, ...}``; other members are returned as a second dict.
    The array of an npy body gets the first of ``names``.

    Args:
        content_type: the header; if it is missing, or curl's default for a form, the format is
            recognized by the first bytes.
        body: the whole body.
        names: expected names, in order.
        limit: bytes that a compressed body may unpack to.
        setting: name of the setting with that limit.
        dtypes: of JSON lists by name; others keep JSON's precision, float64.
        needs_inputs: refuse JSON without ``inputs``, instead of returning no tensors.

    Raises:
        UnsupportedMedia: the type is not supported.
        Malformed, Damaged, Invalid, TooLarge: the body is at fault.
    """
    kind = body_type(content_type, body)
    if kind == JSON:
        return read_members(load_json(body), dtypes, needs_inputs)
    if kind == NPY:
        return {names[0] if names else "data": read_npy(body, "body")}, {}
    if kind == NPZ:
        return read_npz(body, limit, setting), {}
    if kind == SAFETENSORS:
        return read_safetensors(body, "body"), {}
    raise UnsupportedMedia(content_type, MEDIA_TYPES)


def encode(
    kind: str, tensors: Mapping[str, HostArray], key: str, extra: Mapping[str, Any] | None = None
) -> bytes:
    """Write named tensors as a body; see ``content_of``."""
    return bytes(content_of(kind, tensors, key, extra).whole())


def content_of(
    kind: str,
    tensors: Mapping[str, HostArray],
    key: str,
    extra: Mapping[str, Any] | None = None,
    members: Mapping[str, Mapping[str, Any]] | None = None,
) -> Content:
    """Return named tensors as a body, written without holding the interpreter's lock for long.

    Args:
        kind: one of ``MEDIA_TYPES``; npy takes exactly one tensor.
        tensors: arrays by name, which must not change until the content was read.
        key: name of the JSON member that holds the tensors.
        extra: further members of a JSON response.
        members: further members of each tensor, by its name.
    """
    if kind == NPY:
        (array,) = tensors.values()
        return Content.of(npy_pieces(array))
    if kind == NPZ:
        return Content(npz_pieces(tensors))
    if kind == SAFETENSORS:
        return Content.of(safetensors_pieces(tensors))
    return Content(_json_of(tensors, key, extra or {}, members or {}))


def _json_of(
    tensors: Mapping[str, HostArray],
    key: str,
    extra: Mapping[str, Any],
    members: Mapping[str, Mapping[str, Any]],
) -> Iterator[bytes]:
    yield b"{%s:{" % orjson.dumps(key)
    comma = b""
    for name, array in tensors.items():
        head = (orjson.dumps(one) for one in (name, array.dtype.name, array.shape))
        yield comma + b'%s:{"dtype":%s,"shape":%s,"data":' % tuple(head)
        yield from json_pieces(array)
        if name in members:
            yield b"," + orjson.dumps(members[name])[1:-1]
        yield b"}"
        comma = b","
    rest = orjson.dumps(extra)[1:]  # its opening brace is the one written first
    yield b"}" + (b"," + rest if extra else b"}")


def take_inputs(parsed: dict[str, Any]) -> Any:
    """Take the tensors out of a body: ``inputs``, or else all members that look like tensors.

    ``{"data": [[...]]}`` can only mean one thing.
    """
    if "inputs" in parsed:
        return parsed.pop("inputs")
    names = [name for name, value in parsed.items() if _is_tensor(value)]
    return {name: parsed.pop(name) for name in names} or None


def _is_tensor(value: Any) -> bool:
    return isinstance(value, list) or (isinstance(value, dict) and "data" in value)


def read_members(
    parsed: Any, dtypes: Mapping[str, str] | None = None, needs_inputs: bool = True
) -> tuple[Tensors, dict[str, Any]]:
    """Read the named tensors of a parsed JSON body; see ``decode``."""
    if not isinstance(parsed, dict):
        raise Invalid("body", parsed, 'an object: {"inputs": {"data": [[...]]}}')
    inputs = take_inputs(parsed) if needs_inputs else parsed.pop("inputs", {})
    if not isinstance(inputs, dict):
        got = "nothing" if inputs is None else inputs
        raise Invalid("inputs", got, 'tensors by name: {"data": [[...]]}')
    # Before anything walks over the other members: errors about unknown ones name each.
    if len(parsed) > _MOST_MEMBERS:
        got = f"{len(parsed):,} members beside inputs"
        raise Invalid(brief(next(iter(parsed))), got, f"at most {_MOST_MEMBERS}")
    check_depth(parsed)
    if len(inputs) > MOST_TENSORS:
        raise Invalid("inputs", f"{len(inputs):,} tensors", f"at most {MOST_TENSORS:,}")
    return {
        name: read_tensor(value, f"inputs.{name}", (dtypes or {}).get(name, "float64"))
        for name, value in inputs.items()
    }, parsed
