"""Selection of elements by indices."""

from __future__ import annotations

from ..ops.indexing import BatchTake, Embedding, GatherNd, OneHot, Pick, Take
from .conversion import Call, converts
from .graph import INT64


@converts(Embedding)
def _embedding(call: Call, op: Embedding) -> str:
    data, weight = call.inputs
    return call.emit("Gather", weight.name, call.indices(data, op.input_dim, "clip"), axis=0)


@converts(Take)
def _take(call: Call, op: Take) -> str:
    source, places = call.inputs
    axis = op.axis % source.rank
    mode = "clip" if op.mode == "raise" else op.mode  # a graph cannot raise an error
    indices = call.indices(places, call.static_length(source, axis), mode)
    return call.emit("Gather", source.name, indices, axis=axis)


@converts(Pick)
def _pick(call: Call, op: Pick) -> str:
    data, places = call.inputs
    if op.axis is None:
        raise call.cannot("axis is None; ONNX's GatherElements needs one")
    axis = op.axis % data.rank
    indices = call.indices(places, call.static_length(data, axis), op.mode)
    if places.rank < data.rank:
        indices = call.emit("Unsqueeze", indices, call.integers(axis))
    found = call.emit("GatherElements", data.name, indices, axis=axis)
    return found if op.keepdims else call.reshaped(found, call.output)


@converts(BatchTake)
def _batch_take(call: Call, op: BatchTake) -> str:
    data, places = call.inputs
    indices = call.indices(places, call.static_length(data, 1), "clip")
    column = call.emit("Unsqueeze", indices, call.integers(1))
    found = call.emit("GatherElements", data.name, column, axis=1)
    return call.emit("Squeeze", found, call.integers(1))


@converts(OneHot)
def _one_hot(call: Call, op: OneHot) -> str:
    indices = call.emit("Unsqueeze", call.as_dtype(call.data, INT64), call.integers(-1))
    here = call.emit("Equal", indices, call.integers(*range(op.depth)))
    return call.emit("Where", here, call.number(op.on_value), call.number(op.off_value))


@converts(GatherNd)
def _gather_nd(call: Call, op: GatherNd) -> str:
    data, places = call.inputs
    indices = call.transposed(call.as_dtype(places, INT64), (*range(1, places.rank), 0))
    return call.emit("GatherND", data.name, indices)
