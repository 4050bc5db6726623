"""Predictions of examples that differ in length: those of one shape are computed together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
from fastapi import Request, Response

from app.api.bodies import FEW_BYTES, decoders
from app.api.contents import content_response
from app.api.decoding import groups_of
from app.api.disconnect import unless_hung_up
from app.api.v1.tensor_io import PredictFields, answer_ranked
from app.domain.codec import from_plain
from app.domain.module import ModuleKind, ModuleRecord
from app.errors.tree import Invalid
from app.link.client import Reply
from app.link.slots import SLOT_BYTES
from app.services.modules.versions import Version
from app.services.predictions.predict_calls import bound_dtypes, pieces_of, rows_of
from app.services.predictions.predictions import Predictions
from app.services.services import Services
from app.tensors.codec import JSON, Tensors, content_of, negotiate, take_inputs
from app.tensors.content import Content
from app.tensors.json_bodies import load_json
from app.tensors.json_tensors import HostArray
from app.tensors.ragged import SameShapeExamples, group_examples, ragged_pieces

__all__ = ["answer_ragged", "may_be_ragged", "predict_ragged"]


@dataclass(slots=True)
class _Outputs:
    """What was computed for examples of several shapes.

    Attributes:
        rows: by output, one for each example; valid until ``release``.
        replies: whose memory large ones are in, so that they count among the answers under way.
    """

    rows: dict[str, list[HostArray]] = field(default_factory=dict)
    replies: list[Reply] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return sum(row.nbytes for rows in self.rows.values() for row in rows)

    def release(self) -> None:
        """Release their memory."""
        while self.replies:
            self.replies.pop().release()


def may_be_ragged(record: ModuleRecord) -> bool:
    """Return whether a module takes examples of several shapes."""
    return record.kind in (ModuleKind.BUCKETING, ModuleKind.MUTABLE)


async def predict_ragged(
    predictions: Predictions,
    record: ModuleRecord,
    version: Version,
    body: bytes,
    accept: str | None,
) -> tuple[str, Callable[[], Content], Callable[[], None]]:
    """Return the answer to a small JSON body with lists that differ.

    Each example gets the same outputs as if it were sent alone.

    Returns:
        the media type, what makes the content, and what releases its memory.

    Raises:
        Invalid: an input is invalid, or an output does not have a row for each example.
    """
    parsed = load_json(body)
    groups = group_examples(take_inputs(parsed), bound_dtypes(record))
    outputs = await _ask(predictions, record, version, groups, from_plain(PredictFields, parsed))
    kind, make = _written(outputs, version, accept)
    return kind, make, outputs.release


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
            outputs.release()
            raise Invalid(
                "top_k", top_k, "none, because the outputs of these examples differ in length"
            )
        reply = Reply({}, _stacked(outputs))
        outputs.release()
        response = await answer_ranked(reply, top_k, record.labels, {"version": chosen.name})
    else:
        kind, make = _written(outputs, chosen, request.headers.get("accept"))
        response = await content_response(make, outputs.nbytes, kind, outputs.release)
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
    outputs = _Outputs()
    try:
        places: list[int] = []
        for group in groups:
            target = predictions.target(record, version, rows_of(group.tensors), fields.bucket)
            pieces = pieces_of(group.tensors)
            outcome = await predictions.outcome(record, version, target, pieces)
            _add(outputs, outcome.reply())
            places += group.places
    except BaseException:
        outputs.release()
        raise
    order = np.argsort(places)
    outputs.rows = {name: [rows[place] for place in order] for name, rows in outputs.rows.items()}
    return outputs


def _add(outputs: _Outputs, reply: Reply) -> None:
    """Append the rows of a group; few of them are copied, since there are few slots for those."""
    outputs.replies.append(reply)
    is_small = sum(one.nbytes for one in reply.tensors.values()) <= SLOT_BYTES
    axes = reply.result.get("batch_axes", {})
    for name, output in reply.tensors.items():
        by_example = _by_example(name, output, axes.get(name, 0))
        outputs.rows.setdefault(name, []).extend(by_example.copy() if is_small else by_example)
    if is_small:
        outputs.replies.pop().release()


def _written(
    outputs: _Outputs, version: Version, accept: str | None
) -> tuple[str, Callable[[], Content]]:
    """Return a media type, and what makes the content; only JSON can represent rows of differing
    lengths."""
    if _are_alike(outputs):
        kind = negotiate(accept, single=len(outputs.rows) == 1)
        extra = {"version": version.name}
        return kind, lambda: content_of(kind, _stacked(outputs), "outputs", extra)
    return JSON, lambda: Content(_pieces(outputs, version))


def _pieces(outputs: _Outputs, version: Version) -> Iterator[bytes]:
    opening = b'{"outputs":{'
    for name, rows in outputs.rows.items():
        yield opening + orjson.dumps(name) + b":"
        yield from ragged_pieces(rows)
        opening = b","
    yield b'},"version":%b}' % orjson.dumps(version.name)


def _are_alike(outputs: _Outputs) -> bool:
    return all(len({row.shape for row in rows}) == 1 for rows in outputs.rows.values())


def _stacked(outputs: _Outputs) -> Tensors:
    return {name: np.stack(rows) for name, rows in outputs.rows.items()}


def _by_example(name: str, output: Any, axis: int | None) -> HostArray:
    if axis is None:
        got = f"no row of {name!r} for each example"
        raise Invalid("inputs", got, "examples of one length, which are answered whole")
    return np.moveaxis(np.asarray(output), axis, 0)
