"""Tensors between a request or answer and an executor's shared memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar

import orjson
from fastapi import Request, Response
from pydantic import ConfigDict

from app.api.bodies import FEW_BYTES, beside_the_loop, decoders, read_body
from app.api.decoding import tensors_of
from app.domain.codec import STRICT_FIELDS, from_plain
from app.domain.names import BucketKey, Pattern
from app.domain.sequence import SequencePart, sequence_part
from app.errors import Invalid
from app.link.client import Reply
from app.settings import Settings
from app.tensors.codec import JSON, NPZ, Tensors, body_type, decode, encode_buffer, negotiate
from app.tensors.ranking import labelled

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
_FEW_BYTES_OF_NPZ = 1 << 12  # which may unpack to a thousand times as many

_NOTHING: Mapping[str, Any] = {}

F = TypeVar("F")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFields:
    """What a step-level call says beside its tensors.

    Attributes:
        generation: refuse with 412 unless the module has this generation.
        sequence: number of the call; a repeated one is answered again, not done again.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    generation: int | None = None
    sequence: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassFields(StepFields):
    """What a pass says beside its tensors.

    Attributes:
        bucket: of a bucketing module; None takes the smallest that holds the tensors.
        with_outputs: answer with the outputs.
        monitor: collect statistics of the operators' outputs whose names match this pattern, as
            of files: ``fc*_output``.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    bucket: BucketKey | None = None
    with_outputs: bool = True
    monitor: Pattern | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardFields(PassFields):
    """What a forward pass says: whether it is one of training; as bound where None."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    is_train: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFields:
    """What the setting of states may say in the place of tensors: one value for all."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    value: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoFields:
    """Nothing beside the tensors."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictFields:
    """What a prediction says beside its tensors.

    Attributes:
        bucket: the one to take, if not the smallest.
        sequence_id: of the sequence that it is a part of; a number is the same as its digits, and
            0 or nothing stands for none.
        sequence_start, sequence_end: it is the first part, the last part.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    bucket: BucketKey | None = None
    sequence_id: int | str | None = None
    sequence_start: bool = False
    sequence_end: bool = False

    @property
    def part(self) -> SequencePart | None:
        """The part of a sequence that it is; raise Invalid for what cannot be one."""
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
        names: expected names in order; a lone npy array is the first.
        dtypes: of plain numbers in JSON, by name; float32 where absent.
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
    """Return the same of a body that was read already."""
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
        given: those that the query has.
        dtypes: see ``read_tensors``.
    """
    if request.headers.get("content-length", "0") == "0" and not request.headers.get(
        "transfer-encoding"
    ):
        return {}, from_plain(cls, given)
    tensors, rest = await read_tensors(request, names, dtypes, needs_inputs=bool(names))
    for name in given.keys() & rest.keys():
        raise Invalid(name, "both", "it in the query or among the body's members")
    return tensors, from_plain(cls, {**given, **rest})


def members_of(batch_axes: Mapping[str, int | None]) -> dict[str, dict[str, int | None]]:
    """Return what JSON says of outputs that have not the examples along the first axis."""
    return {name: {"batch_axis": axis} for name, axis in batch_axes.items()}


async def answer(
    request: Request,
    reply: Reply,
    key: str,
    extra: Mapping[str, Any] | None = None,
    members: Mapping[str, Mapping[str, Any]] | None = None,
) -> Response:
    """Return the tensors of a reply in the form the client accepts, and release them."""
    try:
        kind = negotiate(request.headers.get("accept"), single=len(reply.tensors) == 1)
        size = sum(tensor.nbytes for tensor in reply.tensors.values())
        make = partial(encode_buffer, kind, reply.tensors, key, extra, members)
        return Response(await beside_the_loop(size, make), media_type=kind)
    finally:
        reply.release()


async def answer_ranked(
    reply: Reply,
    count: int,
    labels: Mapping[str, Sequence[str]],
    extra: Mapping[str, Any] | None = None,
) -> Response:
    """Return the best classes of each row of a reply's tensors as JSON, and release them."""

    def make() -> bytes:
        ranked = {
            name: labelled(tensor, count, labels.get(name))
            for name, tensor in reply.tensors.items()
        }
        return orjson.dumps({"outputs": ranked, **(extra or {})})

    try:
        size = sum(tensor.nbytes for tensor in reply.tensors.values())
        return Response(await beside_the_loop(size, make), media_type=JSON)
    finally:
        reply.release()
