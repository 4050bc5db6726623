"""Predictions of examples that differ in length: those of one shape are computed together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import orjson
from fastapi import Request, Response

from app.api.bodies import FEW_BYTES, beside_the_loop, decoders
from app.api.decoding import groups_of
from app.api.hangup import unless_hung_up
from app.api.tensor_io import PredictFields, answer_ranked
from app.domain.codec import from_plain
from app.domain.module import ModuleKind, ModuleRecord
from app.errors import Invalid
from app.link.client import Reply
from app.services.predict_calls import bound_dtypes, pieces_of, rows_of
from app.services.predictions import Predictions
from app.services.services import Services
from app.services.versions import Version
from app.tensors.codec import JSON, Tensors, encode_buffer, negotiate, take_inputs
from app.tensors.json_bodies import load_json
from app.tensors.json_tensors import HostArray
from app.tensors.ragged import SameShapeExamples, group_examples, ragged_pieces
from app.tensors.writing import join

__all__ = ["answer_ragged", "may_be_ragged", "predict_ragged"]

_Outputs: TypeAlias = Mapping[str, Sequence[HostArray]]
"""By name, a row for each example."""


def may_be_ragged(record: ModuleRecord) -> bool:
    """Return whether a module takes examples of several shapes."""
    return record.kind in (ModuleKind.BUCKETING, ModuleKind.MUTABLE)


async def predict_ragged(
    predictions: Predictions,
    record: ModuleRecord,
    version: Version,
    body: bytes,
    accept: str | None,
) -> tuple[str, memoryview]:
    """Return the type and content of the answer to a small JSON body with lists that differ.

    Each example gets the same outputs as if it were sent alone.

    Raises:
        Invalid: an input is invalid, or an output does not have a row for each example.
    """
    parsed = load_json(body)
    groups = group_examples(take_inputs(parsed), bound_dtypes(record))
    outputs = await _ask(predictions, record, version, groups, from_plain(PredictFields, parsed))
    return await _encode(outputs, version, accept)


async def answer_ragged(
    request: Request,
    services: Services,
    record: ModuleRecord,
    version: str | None,
    body: bytes,
    top_k: int | None,
) -> Response:
    """Answer such a body of any size, in any media type if the outputs all have one shape."""
    dtypes = bound_dtypes(record)
    if len(body) > FEW_BYTES:
        decoded = await decoders(request).decode({"op": "ragged", "dtypes": dtypes}, body)
        groups, rest = groups_of(decoded.plain, decoded.pieces[0])
    else:
        parsed = load_json(body)
        groups, rest = group_examples(take_inputs(parsed), dtypes), parsed
    fields = from_plain(PredictFields, rest)
    chosen = await services.versions.choose(record, version)
    asked = _ask(services.predictions, record, chosen, groups, fields)
    outputs = await unless_hung_up(request, asked)
    if top_k is not None:
        if not _are_alike(outputs):
            raise Invalid(
                "top_k", top_k, "none, because the outputs of these examples differ in length"
            )
        reply = Reply({}, _stacked(outputs))
        response = await answer_ranked(reply, top_k, record.labels, {"version": chosen.name})
    else:
        kind, content = await _encode(outputs, chosen, request.headers.get("accept"))
        response = Response(content, media_type=kind)
    response.headers["X-Model-Version"] = chosen.name
    return response


async def _ask(
    predictions: Predictions,
    record: ModuleRecord,
    version: Version,
    groups: Sequence[SameShapeExamples],
    fields: PredictFields,
) -> _Outputs:
    """Return the outputs by name, a row for each example."""
    if fields.part is not None:
        raise Invalid("inputs", "examples of differing lengths", "one length in a sequence's part")
    outputs: dict[str, dict[int, HostArray]] = {}
    for group in groups:
        target = predictions.target(record, version, rows_of(group.tensors), fields.bucket)
        pieces = pieces_of(group.tensors)
        reply = (await predictions.outcome(record, version, target, pieces)).reply()
        try:
            axes = reply.result.get("batch_axes", {})
            for name, output in reply.tensors.items():
                by_example = _by_example(name, output, axes.get(name, 0))
                outputs.setdefault(name, {}).update(
                    zip(group.places, by_example.copy(), strict=True)
                )
        finally:
            reply.release()
    return {name: [rows[place] for place in sorted(rows)] for name, rows in outputs.items()}


async def _encode(
    outputs: _Outputs, version: Version, accept: str | None
) -> tuple[str, memoryview]:
    size = sum(row.nbytes for rows in outputs.values() for row in rows)
    return await beside_the_loop(size, partial(_encoded, outputs, version, accept))


def _encoded(outputs: _Outputs, version: Version, accept: str | None) -> tuple[str, memoryview]:
    """Return a media type and the content; only JSON can represent rows of differing lengths."""
    if _are_alike(outputs):
        kind = negotiate(accept, single=len(outputs) == 1)
        return kind, encode_buffer(kind, _stacked(outputs), "outputs", {"version": version.name})
    pieces = [b'{"outputs":{']
    for name, rows in outputs.items():
        pieces += [orjson.dumps(name), b":", *ragged_pieces(rows), b","]
    pieces[-1] = b'},"version":%b}' % orjson.dumps(version.name)
    return JSON, join(pieces)


def _are_alike(outputs: _Outputs) -> bool:
    return all(len({row.shape for row in rows}) == 1 for rows in outputs.values())


def _stacked(outputs: _Outputs) -> Tensors:
    return {name: np.stack(rows) for name, rows in outputs.items()}


def _by_example(name: str, output: Any, axis: int | None) -> HostArray:
    if axis is None:
        got = f"no row of {name!r} for each example"
        raise Invalid("inputs", got, "examples of one length, which are answered whole")
    return np.moveaxis(np.asarray(output), axis, 0)
