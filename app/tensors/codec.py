"""Named tensors to and from HTTP bodies: JSON, npy, npz and safetensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy.typing as npt
import orjson

from app.errors import Invalid, UnsupportedMedia
from app.quoting import brief
from app.tensors.json_bodies import check_depth, load_json
from app.tensors.json_tensors import read_tensor
from app.tensors.npy import npy_pieces, npz_content, read_npy, read_npz
from app.tensors.safetensors_format import read_safetensors, safetensors_pieces
from app.tensors.writing import join, json_pieces

__all__ = [
    "JSON",
    "MEDIA_TYPES",
    "NPY",
    "NPZ",
    "SAFETENSORS",
    "Tensors",
    "body_type",
    "decode",
    "encode",
    "encode_buffer",
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
_MOST_MEMBERS = 32  # beside the tensors; no route knows as many

MEDIA_TYPES = (JSON, NPY, NPZ, SAFETENSORS)

_ALIASES = {
    "application/npy": NPY,
    "application/npz": NPZ,
    "application/zip": NPZ,
    "application/safetensors": SAFETENSORS,
    "application/vnd.safetensors": SAFETENSORS,
}

_UNSTATED = ("", "application/x-www-form-urlencoded", "application/octet-stream", "text/plain")
"""What programs write that were not told the type; curl sends everything as a form."""


def media_type(header: str | None) -> str:
    """Return the plain media type of a Content-Type header; JSON if there is none."""
    plain = (header or JSON).partition(";")[0].strip().lower()
    return _ALIASES.get(plain, plain)


def is_unstated(header: str | None) -> bool:
    """Return whether a Content-Type says nothing of what a body is."""
    return not header or media_type(header) in _UNSTATED


def body_type(header: str | None, body: bytes) -> str:
    """Return the media type of a body: the stated one, else the one that its first bytes show."""
    stated = media_type(header) if header else ""
    if stated not in _UNSTATED:
        return stated
    if body.startswith(b"\x93NUMPY"):
        return NPY
    if body.startswith(b"PK\x03\x04"):
        return NPZ
    # The length of the header comes first, and no text is so short a number.
    if body[8:9] == b"{" and int.from_bytes(body[:8], "little") <= len(body):
        return SAFETENSORS
    return JSON


def negotiate(accept: str | None, single: bool = True) -> str:
    """Choose the media type of an answer from an Accept header; JSON where nothing else is named.

    Args:
        accept: the header.
        single: whether the answer is one array, which alone fits npy.
    """
    for part in (accept or "").split(","):
        wanted = media_type(part) if part.strip() else JSON
        if wanted in MEDIA_TYPES and (single or wanted != NPY):
            return wanted
    return JSON


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

    JSON is ``{"inputs": {name: tensor, ...}, ...}``, other members are returned beside the tensors.
    An npy body is the first of ``names``.

    Args:
        content_type: the header; a body that comes without, or as the form that curl makes of
            everything, is known by its first bytes.
        body: the whole body.
        names: names that are expected, in order.
        limit: bytes that a compressed body may unpack to.
        setting: the setting with that limit.
        dtypes: of JSON lists by name, float32 where absent.
        needs_inputs: refuse JSON without ``inputs``; else it means no tensors.

    Raises:
        UnsupportedMedia: a type not read here.
        Malformed, Damaged, Invalid, TooLarge: the body's fault.
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
    """Write named tensors as a body; see ``encode_buffer``."""
    return bytes(encode_buffer(kind, tensors, key, extra))


def encode_buffer(
    kind: str,
    tensors: Mapping[str, HostArray],
    key: str,
    extra: Mapping[str, Any] | None = None,
    members: Mapping[str, Mapping[str, Any]] | None = None,
) -> memoryview:
    """Write named tensors as a body, however large without stopping other threads for long.

    Args:
        kind: one of ``MEDIA_TYPES``; npy takes exactly one tensor.
        tensors: arrays by name.
        key: member of a JSON answer that holds the tensors.
        extra: further members of a JSON answer.
        members: further members of tensors in it, by name.
    """
    if kind == NPY:
        (array,) = tensors.values()
        return join(npy_pieces(array))
    if kind == NPZ:
        return npz_content(tensors)
    if kind == SAFETENSORS:
        return join(safetensors_pieces(tensors))
    return join(_json_of(tensors, key, extra or {}, members or {}))


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
    rest = orjson.dumps(extra)[1:]
    yield b"}" + (b"," + rest if extra else b"}")


def take_inputs(parsed: dict[str, Any]) -> Any:
    """Take the tensors out of a body: ``inputs``, or if there are none all that look like such.

    ``{"data": [[...]]}`` can mean but one thing.
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
        raise Invalid("inputs", inputs, 'tensors by name: {"data": [[...]]}')
    if len(parsed) > _MOST_MEMBERS:
        got = f"{len(parsed):,} members beside inputs"
        raise Invalid(brief(next(iter(parsed))), got, f"at most {_MOST_MEMBERS}")
    check_depth(parsed)
    if len(inputs) > MOST_TENSORS:
        raise Invalid("inputs", f"{len(inputs):,} tensors", f"at most {MOST_TENSORS:,}")
    return {
        name: read_tensor(value, f"inputs.{name}", (dtypes or {}).get(name, "float32"))
        for name, value in inputs.items()
    }, parsed
