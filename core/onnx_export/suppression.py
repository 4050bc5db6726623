"""Non-maximum suppression, box by box in a loop.

ONNX's own operator compares boxes of negative width otherwise, knows no classes of boxes and no
limit on the boxes that it considers.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from ..ops.contrib.boxes import BoxNMS
from .conversion import Call, converts
from .graph import BOOL, INT64, Tensor

_FLOAT32 = np.dtype("float32")


@dataclasses.dataclass(frozen=True)
class _Sides:
    """The sides and areas of boxes, each (examples, boxes)."""

    left: str
    top: str
    right: str
    bottom: str
    area: str


@converts(BoxNMS)
def _box_nms(call: Call, op: BoxNMS) -> str:
    if op.topk == 0:  # as in MXNet, nothing is suppressed then
        return call.data.name
    count, width = (call.static_length(call.data, axis) for axis in (-2, -1))
    examples = (math.prod(call.data.shape[:-2]), count, width)
    shape = Tensor("", examples, (not call.data.is_static, False, False), _FLOAT32)
    data = call.reshaped(call.as_dtype(call.data, _FLOAT32), shape)
    kept = count if op.topk < 0 else min(op.topk, count)
    rows, is_valid = _best(call, op, data, kept)
    sides = _sides(call, rows, op)
    classes = None
    if op.id_index >= 0 and not op.force_suppress:
        classes = call.cast(_column(call, rows, op.id_index), INT64)
    stays = call.repeat(
        kept,
        is_valid,
        BOOL,
        lambda number, before: _step(call, op, sides, classes, number, before),
    )
    rows = _those_first(call, rows, stays, kept)
    if op.in_format != op.out_format:
        rows = _converted(call, op, rows, width)
    if kept < count:
        pads = call.integers(0, 0, 0, 0, count - kept, 0)
        rows = call.emit("Pad", rows, pads, _real(call, -1))
    rows = call.reshaped(rows, call.output)
    return rows if call.output.dtype == _FLOAT32 else call.cast(rows, call.output.dtype)


def _best(call: Call, op: BoxNMS, data: str, kept: int) -> tuple[str, str]:
    """Return the best boxes by descending score, and which of them are valid."""
    scores = _column(call, data, op.score_index)
    is_valid = call.emit("Greater", scores, _real(call, op.valid_thresh))
    if op.id_index >= 0:
        background = _real(call, op.background_id)
        is_background = call.emit("Equal", _column(call, data, op.id_index), background)
        is_valid = call.emit("And", is_valid, call.emit("Not", is_background))
    keys = call.emit("Where", is_valid, scores, _real(call, -np.inf))
    # Equal scores keep their order, as ONNX prescribes.
    keys, order = call.emit_several("TopK", keys, call.integers(kept), outputs=2, axis=1)
    is_one = call.emit("Not", call.emit("IsInf", keys, detect_positive=0))
    return _rows(call, data, order), is_one


def _sides(call: Call, rows: str, op: BoxNMS) -> _Sides:
    first, second, third, fourth = (_column(call, rows, op.coord_start + one) for one in range(4))
    if op.in_format == "corner":
        left, top, right, bottom = first, second, third, fourth
        across, down = call.emit("Sub", right, left), call.emit("Sub", bottom, top)
    else:
        across, down = third, fourth
        halves = [call.emit("Div", one, _real(call, 2)) for one in (across, down)]
        left, top = (
            call.emit("Sub", one, half) for one, half in zip((first, second), halves, strict=True)
        )
        right, bottom = (
            call.emit("Add", one, half) for one, half in zip((first, second), halves, strict=True)
        )
    is_negative = call.emit(
        "Or", *(call.emit("Less", one, _real(call, 0)) for one in (across, down))
    )
    area = call.emit("Where", is_negative, _real(call, 0), call.emit("Mul", across, down))
    return _Sides(left, top, right, bottom, area)


def _step(
    call: Call, op: BoxNMS, sides: _Sides, classes: str | None, number: str, before: str
) -> str:
    """Return which boxes are left after one of them, if it is left itself, suppressed others."""
    here = call.emit("Unsqueeze", number, call.integers(0))

    def own(name: str) -> str:
        return call.emit("Gather", name, here, axis=1)

    def between(low: str, high: str) -> str:
        end = call.emit("Min", high, own(high))
        length = call.emit("Sub", end, call.emit("Max", low, own(low)))
        return call.emit("Max", length, _real(call, 0))

    across, down = between(sides.left, sides.right), between(sides.top, sides.bottom)
    inside = call.emit("Mul", across, down)
    union = call.emit("Sub", call.emit("Add", own(sides.area), sides.area), inside)
    ratio = call.emit("Div", inside, union)
    falls = call.emit("Greater", ratio, _real(call, op.overlap_thresh))
    if classes is not None:
        falls = call.emit("And", falls, call.emit("Equal", classes, own(classes)))
    falls = call.emit("And", falls, own(before))
    places = call.emit("Range", *_bounds(call, before))
    falls = call.emit("And", falls, call.emit("Greater", places, number))
    return call.emit("And", before, call.emit("Not", falls))


def _bounds(call: Call, boxes: str) -> tuple[str, str, str]:
    ends = call.emit("Shape", boxes, start=1, end=2)
    zero, one = call.constant(0, INT64), call.constant(1, INT64)
    return zero, call.emit("Squeeze", ends, call.integers(0)), one


def _those_first(call: Call, rows: str, stays: str, kept: int) -> str:
    """Return the boxes that stay, in their order, followed by rows of -1."""
    flags = call.cast(stays, _FLOAT32)
    flags, order = call.emit_several("TopK", flags, call.integers(kept), outputs=2, axis=1)
    is_one = call.emit("Unsqueeze", call.emit("Cast", flags, to=BOOL), call.integers(2))
    return call.emit("Where", is_one, _rows(call, rows, order), _real(call, -1))


def _converted(call: Call, op: BoxNMS, rows: str, width: int) -> str:
    """Return boxes in the other format; as in MXNet, those that begin below 0 are skipped."""
    start = op.coord_start
    first, second = (_part(call, rows, start + one, start + one + 2) for one in (0, 2))
    if op.out_format == "center":
        middle = call.emit("Div", call.emit("Add", first, second), _real(call, 2))
        boxes = (middle, call.emit("Sub", second, first))
    else:
        half = call.emit("Div", second, _real(call, 2))
        boxes = (call.emit("Sub", first, half), call.emit("Add", first, half))
    is_left = call.emit("Less", _part(call, rows, start, start + 1), _real(call, 0))
    old = _part(call, rows, start, start + 4)
    new = call.emit("Where", is_left, old, call.emit("Concat", *boxes, axis=2))
    parts = [new]
    if start:
        parts.insert(0, _part(call, rows, 0, start))
    if start + 4 < width:
        parts.append(_part(call, rows, start + 4, width))
    return call.emit("Concat", *parts, axis=2)


def _rows(call: Call, data: str, order: str) -> str:
    indices = call.emit("Unsqueeze", order, call.integers(2))
    return call.emit("GatherND", data, indices, batch_dims=1)


def _column(call: Call, data: str, index: int) -> str:
    return call.emit("Gather", data, call.constant(index, INT64), axis=2)


def _part(call: Call, data: str, start: int, stop: int) -> str:
    return call.emit("Slice", data, *(call.integers(one) for one in (start, stop, 2)))


def _real(call: Call, value: float) -> str:
    return call.constant(value, _FLOAT32)
