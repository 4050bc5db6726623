"""The work of a decoder process, which is independent of the server.

An answer is plain JSON and pieces of bytes, so that the server only needs to make views of those
bytes.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import orjson

from app.api.v1.raw_values import Kinds, RawValues, take_raw
from app.api.v1.requests import ModuleBody, canonical_symbol
from app.domain.codec import from_plain
from app.domain.job import JobKind
from app.domain.job_params import parse_job_params, parse_source
from app.domain.transforms import ImageTransform
from app.errors.http import error_code
from app.errors.tree import HostError, Invalid, ServiceError
from app.tensors.codec import JSON, Tensors, decode, read_members, take_inputs
from app.tensors.json_bodies import load_json, parse_json
from app.tensors.ragged import SameShapeExamples, group_examples

__all__ = ["Decoded", "Work", "as_host_error", "decode_body", "groups_of", "tensors_of"]

Work: TypeAlias = Mapping[str, Any]
"""A request: ``op`` is the name of a function below, the rest its arguments, as plain JSON."""

_MOST_BESIDE = 1 << 16
"""Maximum number of bytes of JSON beside tensors and symbols; the server parses it again."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a body holds.

    Attributes:
        plain: the small part, as JSON values.
        pieces: the large parts, in order.
    """

    plain: Any = None
    pieces: Sequence[bytes | memoryview] = field(default=())


def decode_body(work: Work, body: bytes) -> Decoded:
    """Do the work; raise a ServiceError if the body is invalid."""
    arguments = dict(work)
    return _OPERATIONS[arguments.pop("op")](body, **arguments)


def tensors_of(
    plain: Mapping[str, Any], data: bytes | memoryview
) -> tuple[Tensors, dict[str, Any]]:
    """Return the tensors that ``tensors`` found, as views of its pieces, and the other members."""
    tensors, begin = {}, 0
    for name, dtype, shape, size in plain["tensors"]:
        tensors[name] = np.frombuffer(data[begin : begin + size], dtype).reshape(shape)
        begin += size
    return tensors, plain["rest"]


def groups_of(
    plain: Mapping[str, Any], data: bytes | memoryview
) -> tuple[list[SameShapeExamples], dict[str, Any]]:
    """Return the examples that ``ragged`` found, by their shapes, and the other members."""
    groups, begin = [], 0
    for places, size, found in plain["groups"]:
        tensors, _ = tensors_of(found, data[begin : begin + size])
        groups.append(SameShapeExamples(places, tensors))
        begin += size
    return groups, plain["rest"]


def as_host_error(error: ServiceError) -> HostError:
    """Return an error in the form that is sent between processes."""
    rows = [dataclasses.asdict(row) for row in error.field_errors()]
    return HostError(error_code(error), error.message, errors=rows, extensions=error.extensions())


def _tensors(body: bytes, needs_inputs: bool, dtypes: dict[str, str]) -> Decoded:
    tensors, rest = decode(
        *(JSON, body),
        names=(),
        limit=len(body),
        setting="",
        dtypes=dtypes,
        needs_inputs=needs_inputs,
    )
    return _as_pieces(tensors, rest)


def _ragged(body: bytes, dtypes: dict[str, str]) -> Decoded:
    parsed = load_json(body)
    groups: list[Any] = []
    pieces: list[bytes | memoryview] = []
    for group in group_examples(take_inputs(parsed), dtypes):
        decoded = _as_pieces(group.tensors, {})
        groups.append((group.places, sum(map(len, decoded.pieces)), decoded.plain))
        pieces += decoded.pieces
    rest = _as_pieces({}, {name: one for name, one in parsed.items() if name != "inputs"})
    return Decoded({"groups": groups, "rest": rest.plain["rest"]}, pieces)


def _raw(body: bytes, kinds: Kinds, dtypes: dict[str, str]) -> Decoded:
    parsed = load_json(body)
    values: RawValues = take_raw(parsed, kinds) if isinstance(parsed, dict) else {}
    decoded = _as_pieces(*read_members(parsed, dtypes))
    table = [(name, [len(one) for one in examples]) for name, examples in values.items()]
    pieces = [one for examples in values.values() for one in examples]
    return Decoded(decoded.plain | {"values": table}, [*decoded.pieces, *pieces])


def _as_pieces(tensors: Tensors, rest: dict[str, Any]) -> Decoded:
    if len(orjson.dumps(rest)) > _MOST_BESIDE:
        raise Invalid("body", "large members beside inputs", f"at most {_MOST_BESIDE:,} bytes")
    table = [(name, array.dtype.name, array.shape, array.nbytes) for name, array in tensors.items()]
    # As bytes, because the buffer protocol has no bfloat16.
    pieces = [array.reshape(-1).view(np.uint8).data for array in tensors.values()]
    return Decoded({"tensors": table, "rest": rest}, pieces)


def _images(
    body: bytes,
    name: str,
    transform: dict[str, Any],
    sizes: Sequence[int],
    most_pixels: int,
) -> Decoded:
    from app.sandbox.images.transforming import transform_image  # loads the engine

    chosen = from_plain(ImageTransform, transform)
    tensors: list[Any] = []
    begin = 0
    for index, size in enumerate(sizes):
        field = name if len(sizes) == 1 else f"{name}[{index}]"
        tensors.append(transform_image(body[begin : begin + size], chosen, field, most_pixels))
        if tensors[-1].shape != tensors[0].shape:
            expected = f"{tensors[0].shape} as of the first; set size or crop in the transform"
            raise Invalid(field, f"shape {tensors[-1].shape}", expected)
        begin += size
    batch = np.stack(tensors)
    row = (name, batch.dtype.name, batch.shape, batch.nbytes)
    return Decoded({"tensors": [row], "rest": {}}, [batch.reshape(-1).view(np.uint8).data])


def _fields(body: bytes, cls: str) -> Decoded:
    module, _, name = cls.partition(":")
    from_plain(getattr(importlib.import_module(module), name), parse_json(body))
    return Decoded()


def _function(body: bytes, function: str) -> Decoded:
    """Call a function of another part of the server."""
    module, _, name = function.partition(":")
    decoded: Decoded = getattr(importlib.import_module(module), name)(body)
    return decoded


def _job(body: bytes, kind: str) -> Decoded:
    parse_job_params(JobKind(kind), parse_json(body))
    return Decoded()


def _source(body: bytes) -> Decoded:
    parse_source(parse_json(body))
    return Decoded()


def _module(body: bytes) -> Decoded:
    parsed = parse_json(body)
    module = from_plain(ModuleBody, parsed)
    texts = module.symbol_texts()
    beside = {name: one for name, one in parsed.items() if name not in ("symbol", "symbols")}
    if len(orjson.dumps(beside)) > _MOST_BESIDE:
        raise Invalid("body", "large members beside the symbols", f"at most {_MOST_BESIDE:,} bytes")
    pieces = [text.encode() for text in texts.values()]
    table = [(key, len(piece)) for key, piece in zip(texts, pieces, strict=True)]
    return Decoded({"fields": beside, "symbols": table}, pieces)


def _symbol(body: bytes, field: str) -> Decoded:
    return Decoded(None, [canonical_symbol(body, field).encode()])


_OPERATIONS: dict[str, Callable[..., Decoded]] = {
    "tensors": _tensors,
    "images": _images,
    "fields": _fields,
    "function": _function,
    "job": _job,
    "module": _module,
    "ragged": _ragged,
    "raw": _raw,
    "source": _source,
    "symbol": _symbol,
}
