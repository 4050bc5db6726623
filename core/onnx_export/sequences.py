"""Operators on sequences of different lengths."""

from __future__ import annotations

from ..ops.sequence import SequenceLast, SequenceMask, SequenceReverse
from .conversion import Call, converts
from .graph import INT64


def _lengths(call: Call, steps: int) -> str:
    """Return the lengths as integers, clipped to the number of steps."""
    whole = call.as_dtype(call.inputs[1], INT64)
    return call.emit("Clip", whole, call.constant(0, INT64), call.constant(steps, INT64))


@converts(SequenceMask)
def _sequence_mask(call: Call, op: SequenceMask) -> str:
    data = call.data
    if not op.use_sequence_length:
        return data.name
    steps = call.static_length(data, op.axis)
    lengths = call.emit("Unsqueeze", _lengths(call, steps), call.integers(op.axis))
    times = call.viewed(call.integers(*range(steps)), (steps, 1) if op.axis == 0 else (1, steps))
    within = call.emit("Less", times, lengths)
    if data.rank > 2:
        within = call.emit("Unsqueeze", within, call.integers(*range(2, data.rank)))
    return call.emit("Where", within, data.name, call.number(op.value))


@converts(SequenceLast)
def _sequence_last(call: Call, op: SequenceLast) -> str:
    data, steps = call.data, call.static_length(call.data, op.axis)
    if not op.use_sequence_length:
        last = call.constant(steps - 1, INT64)
        return call.emit("Gather", data.name, last, axis=op.axis)
    name = data.name
    if op.axis == 0:
        name = call.transposed(name, (1, 0, *range(2, data.rank)))
    last = call.emit("Sub", _lengths(call, steps), call.constant(1, INT64))
    rows = call.emit("Unsqueeze", last, call.integers(1))
    return call.emit("GatherND", name, rows, batch_dims=1)


@converts(SequenceReverse)
def _sequence_reverse(call: Call, op: SequenceReverse) -> str:
    data, steps = call.data, call.static_length(call.data, op.axis)
    if op.use_sequence_length:
        return call.emit(
            "ReverseSequence",
            data.name,
            _lengths(call, steps),
            time_axis=op.axis,
            batch_axis=1 - op.axis,
        )
    # From the last element to before the first one: the least end is clipped to any length.
    columns = ([-1], [-(2**63)], [op.axis], [-1])
    return call.emit("Slice", data.name, *(call.integers(*one) for one in columns))
