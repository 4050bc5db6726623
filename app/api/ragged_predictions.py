"""Predictions of examples that differ in length: those of one shape are asked for together."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

from app.api.tensor_io import PredictFields
from app.domain.codec import from_plain
from app.domain.module import ModuleKind, ModuleRecord
from app.errors import Invalid
from app.services.predict_calls import predict_call
from app.services.predictions import Predictions
from app.services.versions import Version
from app.tensors.codec import take_inputs
from app.tensors.json_bodies import load_json
from app.tensors.json_tensors import HostArray
from app.tensors.ragged import group_examples, ragged_json

__all__ = ["may_be_ragged", "predict_ragged"]


def may_be_ragged(record: ModuleRecord) -> bool:
    """Tell whether a module takes examples of several shapes."""
    return record.kind in (ModuleKind.BUCKETING, ModuleKind.MUTABLE)


async def predict_ragged(
    predictions: Predictions, record: ModuleRecord, version: Version, body: bytes
) -> bytes:
    """Return the answer, as JSON, to a JSON body with lists of differing lengths.

    Each example has the outputs that it would have if it was asked for alone.

    Raises:
        Invalid: an input, or an output that has not a row for each example.
    """
    parsed = load_json(body)
    inputs = take_inputs(parsed)
    fields = from_plain(PredictFields, parsed)
    if fields.part is not None:
        raise Invalid("inputs", "examples of differing lengths", "one length in a sequence's part")
    call = predict_call(record, fields.bucket, None, version.key)
    outputs: dict[str, dict[int, HostArray]] = {}
    for group in group_examples(inputs):
        reply = await predictions.call(record, version, call, group.tensors)
        try:
            axes = reply.result.get("batch_axes", {})
            for name, output in reply.tensors.items():
                by_example = _by_example(name, output, axes.get(name, 0))
                outputs.setdefault(name, {}).update(
                    zip(group.places, by_example.copy(), strict=True)
                )
        finally:
            reply.release()
    texts = (
        b"%s:%s" % (orjson.dumps(name), ragged_json([rows[place] for place in sorted(rows)]))
        for name, rows in outputs.items()
    )
    return b'{"outputs":{%s},"version":%s}' % (b",".join(texts), orjson.dumps(version.name))


def _by_example(name: str, output: Any, axis: int | None) -> HostArray:
    if axis is None:
        got = f"no row of {name!r} for each example"
        raise Invalid("inputs", got, "examples of one length, which are answered whole")
    return np.moveaxis(np.asarray(output), axis, 0)
