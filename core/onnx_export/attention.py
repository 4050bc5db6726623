"""Products of multi-head attention on interleaved projections."""

from __future__ import annotations

import math

from ..ops.contrib.attention import EncDecQK, EncDecValAtt, SelfAttQK, SelfAttValAtt
from .conversion import Call, converts
from .graph import INT64, Tensor


@converts(SelfAttQK)
def _self_scores(call: Call, op: SelfAttQK) -> str:
    return _scores(call, _part(call, call.data, op.heads, 3, 0), call.data, op.heads, 3, 1)


@converts(EncDecQK)
def _encoder_scores(call: Call, op: EncDecQK) -> str:
    queries, keys = call.inputs
    return _scores(call, _part(call, queries, op.heads, 1, 0), keys, op.heads, 2, 0)


@converts(SelfAttValAtt)
def _self_values(call: Call, op: SelfAttValAtt) -> str:
    return _values(call, op.heads, 3)


@converts(EncDecValAtt)
def _encoder_values(call: Call, op: EncDecValAtt) -> str:
    return _values(call, op.heads, 2)


def _scores(call: Call, queries: str, data: Tensor, heads: int, parts: int, index: int) -> str:
    """Return queries times keys, divided by the square root of the head size."""
    keys = call.transposed(_part(call, data, heads, parts, index), (0, 1, 3, 2))
    size = data.shape[2] // (heads * parts)
    scores = call.emit("MatMul", queries, keys)
    return call.reshaped(call.emit("Div", scores, call.number(math.sqrt(size))), call.output)


def _values(call: Call, heads: int, parts: int) -> str:
    data, attention = call.inputs
    values = _part(call, data, heads, parts, parts - 1)
    batch, *lengths = attention.shape
    by_head = call.viewed(
        attention.name,
        (batch // heads, heads, *lengths),
        (attention.dynamic[0], False, *attention.dynamic[1:]),
    )
    weighted = call.emit("MatMul", by_head, values)
    return call.reshaped(call.transposed(weighted, (2, 0, 1, 3)), call.output)


def _part(call: Call, data: Tensor, heads: int, parts: int, index: int) -> str:
    """Return one part (queries, keys or values) of all heads, (batch, heads, length, size)."""
    length, batch, width = data.shape
    shape = (length, batch, heads, parts, width // (heads * parts))
    split = call.viewed(data.name, shape, (*data.dynamic[:2], False, False, False))
    part = call.emit("Gather", split, call.constant(index, INT64), axis=3)
    return call.transposed(part, (1, 2, 0, 3))
