"""Tensors between a request or answer and an executor's shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar

import orjson
from fastapi import Request, Response
from pydantic import ConfigDict

from app.api.bodies import FEW_BYTES, beside_the_loop, decoders, read_body
from app.api.contents import content_response
from app.api.decoding import tensors_of
from app.domain.codec import STRICT_FIELDS, from_plain
from app.domain.names import BucketKey, Pattern
from app.domain.sequence import SequencePart, sequence_part
from app.errors.tree import Invalid
from app.link.client import Reply
from app.settings import Settings
from app.tensors.codec import JSON, NPZ, Tensors, body_type, content_of, decode, negotiate
from app.tensors.content import Content
from app.tensors.ranking import ranked_pieces

__all__ = [
    "LARGEST_JSON_HERE",
    "ForwardFields",
    "NoFields",
    "PassFields",
    "PredictFields",
    "StateFields",
    "StepFields",
    "answer",
    "answer_ranked",
    "members_of",
    "read_step",
    "read_tensors",
    "tensors_in",
]


LARGEST_JSON_HERE = 1 << 18
"""Larger JSON is decoded in another process: the parser keeps the interpreter's lock."""
_FEW_BYTES_OF_NPZ = 1 << 12  # which may expand a thousandfold

_NOTHING: Mapping[str, Any] = {}

F = TypeVar("F")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFields:
    """Parameters of a step call beside its tensors.

    Attributes:
        generation: refuse with 412 unless the module has this generation.
        sequence: number of the call; a repetition gets the same answer and is not carried out
            again.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    generation: int | None = None
    sequence: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassFields(StepFields):
    """Parameters of a pass beside its tensors.

    Attributes:
        bucket: of a bucketing module; None takes the smallest that fits the tensors.
        with_outputs: answer with the outputs.
        monitor: collect statistics of the operators' outputs whose names match this pattern, such
            as ``fc*_output``.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    bucket: BucketKey | None = None
    with_outputs: bool = True
    monitor: Pattern | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardFields(PassFields):
    """Parameters of a forward pass: whether it is a training pass; None takes how the module is
    bound.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    is_train: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFields:
    """Setting of states by one value for all instead of tensors."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    value: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoFields:
    """No parameters beside the tensors."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictFields:
    """Parameters of a prediction beside its tensors.

    Attributes:
        bucket: the one to use; None takes the smallest that fits.
        sequence_id: of the sequence to which it belongs; a number is the same as its digits, and 0
            or an empty string means none.
        sequence_start, sequence_end: whether it is the first or the last part.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    bucket: BucketKey | None = None
    sequence_id: int | str | None = None
    sequence_start: bool = False
    sequence_end: bool = False

    @property
    def part(self) -> SequencePart | None:
        """Its part of a sequence; raise Invalid if the fields are inconsistent."""
        return sequence_part(self.sequence_id, self.sequence_start, self.sequence_end)


async def read_tensors(
    request: Request,
    names: Sequence[str],
    dtypes: Mapping[str, str] = _NOTHING,
    *,
    needs_inputs: bool = True,
) -> tuple[Tensors, dict[str, Any]]:
    """Return the tensors of a body by name, and a JSON body's other members.

    Args:
        names: expected names in order; a single npy array is the first.
        dtypes: of plain numbers in JSON, by name; float64 if absent.
        needs_inputs: refuse a JSON body that has only other members.
    """
    body = await read_body(request)
    return await tensors_in(request, body, names, dtypes, needs_inputs=needs_inputs)


async def tensors_in(
    request: Request,
    body: bytes,
    names: Sequence[str],
    dtypes: Mapping[str, str] = _NOTHING,
    *,
    needs_inputs: bool = True,
) -> tuple[Tensors, dict[str, Any]]:
    """Return the same for a body that was already read."""
    settings: Settings = request.app.state.settings
    content_type = request.headers.get("content-type")
    kind = body_type(content_type, body)
    if kind == JSON and len(body) > LARGEST_JSON_HERE:
        work = {"op": "tensors", "needs_inputs": needs_inputs, "dtypes": dict(dtypes)}
        decoded = await decoders(request).decode(work, body)
        return tensors_of(decoded.plain, decoded.pieces[0])
    work_here = partial(
        decode,
        content_type,
        body,
        names=names,
        limit=settings.max_body_bytes,
        setting="MODSERVE_MAX_BODY_BYTES",
        dtypes=dtypes,
        needs_inputs=needs_inputs,
    )
    few = _FEW_BYTES_OF_NPZ if kind == NPZ else FEW_BYTES
    return await beside_the_loop(len(body), work_here, few)


async def read_step(
    request: Request,
    names: Sequence[str],
    cls: type[F],
    given: Mapping[str, Any] = _NOTHING,
    dtypes: Mapping[str, str] = _NOTHING,
) -> tuple[Tensors, F]:
    """Return the tensors and fields of a step-level call; an empty body has neither.

    Args:
        names: expected names of the tensors, in order.
        cls: of the fields.
        given: those in the query.
        dtypes: see ``read_tensors``.
    """
    # An empty body is no JSON, and no file of tensors either.
    if request.headers.get("content-length", "0") == "0" and not request.headers.get(
        "transfer-encoding"
    ):
        return {}, from_plain(cls, given)
    tensors, rest = await read_tensors(request, names, dtypes, needs_inputs=bool(names))
    for name in given.keys() & rest.keys():
        raise Invalid(name, "one in the query and one in the body", "only one of them")
    return tensors, from_plain(cls, {**given, **rest})


def members_of(batch_axes: Mapping[str, int | None]) -> dict[str, dict[str, int | None]]:
    """Return the JSON members for outputs whose first axis is not that of the examples."""
    return {name: {"batch_axis": axis} for name, axis in batch_axes.items()}


async def answer(
    request: Request,
    reply: Reply,
    key: str,
    extra: Mapping[str, Any] | None = None,
    members: Mapping[str, Mapping[str, Any]] | None = None,
) -> Response:
    """Return the tensors of a reply in a format that the client accepts, and release them."""
    kind = negotiate(request.headers.get("accept"), single=len(reply.tensors) == 1)
    size = sum(tensor.nbytes for tensor in reply.tensors.values())
    make = partial(content_of, kind, reply.tensors, key, extra, members)
    return await content_response(make, size, kind, reply.release)


async def answer_ranked(
    reply: Reply,
    count: int,
    labels: Mapping[str, Sequence[str]],
    extra: Mapping[str, Any] | None = None,
) -> Response:
    """Return the best classes of each row of a reply's tensors as JSON, and release them."""

    def pieces() -> Iterator[bytes]:
        opening = b'{"outputs":{'
        for name, tensor in reply.tensors.items():
            yield opening + orjson.dumps(name) + b":"
            yield from ranked_pieces(tensor, count, labels.get(name))
            opening = b","
        rest = orjson.dumps(extra or {})[1:]
        yield b"}" + (b"," + rest if extra else b"}")

    size = sum(tensor.nbytes for tensor in reply.tensors.values())
    return await content_response(lambda: Content(pieces()), size, JSON, reply.release)
