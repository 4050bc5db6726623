"""Matrix products."""

from __future__ import annotations

import math

from ..ops.dense import FullyConnected
from ..ops.linalg import Gemm, Gemm2
from ..ops.product import BatchDot, Dot
from .conversion import Call, converts
from .graph import Tensor


@converts(FullyConnected)
def _fully_connected(call: Call, op: FullyConnected) -> str:
    data, weight, *bias = call.names
    if op.flatten or call.data.rank == 2:
        if call.data.rank != 2:
            data = call.emit("Flatten", data, axis=1)
        return call.emit("Gemm", data, weight, *bias, transB=1)
    product = call.emit("MatMul", data, call.transposed(weight, (1, 0)))
    return call.emit("Add", product, *bias) if bias else product


@converts(Dot)
def _dot(call: Call, op: Dot) -> str:
    left, right = call.inputs
    if left.rank > 2 or right.rank > 2:
        return _product_of_many_axes(call, op, left, right)
    a, b = left.name, right.name
    if left.rank == 2 and op.transpose_a:
        a = call.transposed(a, (1, 0))
    if right.rank == 2 and op.transpose_b:
        b = call.transposed(b, (1, 0))
    product = call.emit("MatMul", a, b)
    return call.reshaped(product, call.output) if left.rank == right.rank == 1 else product


def _product_of_many_axes(call: Call, op: Dot, left: Tensor, right: Tensor) -> str:
    """Return the product of the arrays viewed as matrices, in the output's shape."""
    if not left.rank or not right.rank:
        raise call.cannot("a number has no axis to sum over")
    inner = call.static_length(left, 0 if op.transpose_a else left.rank - 1)
    a = _as_matrix(call, left, inner, inner_first=op.transpose_a)
    b = _as_matrix(call, right, inner, inner_first=not op.transpose_b)
    if op.transpose_a:
        a = call.transposed(a, (1, 0))
    if op.transpose_b:
        b = call.transposed(b, (1, 0))
    return call.reshaped(call.emit("MatMul", a, b), call.output)


def _as_matrix(call: Call, tensor: Tensor, inner: int, *, inner_first: bool) -> str:
    if tensor.rank == 2:
        return tensor.name
    others = math.prod(tensor.shape) // max(1, inner)
    shape, dynamic = (others, inner), (not tensor.is_static, False)
    if inner_first:
        shape, dynamic = (inner, others), (False, not tensor.is_static)
    return call.viewed(tensor.name, shape, dynamic)


@converts(Gemm2, Gemm)
def _gemm(call: Call, op: Gemm2 | Gemm) -> str:
    rank = call.data.rank
    rows = op.axis % rank
    # The axis of rows becomes the second last one.
    there = [*(axis for axis in range(rank - 1) if axis != rows), rows, rank - 1]
    back = [there.index(axis) for axis in range(rank)]
    turned = [*there[:-2], rank - 1, rows]
    a = call.transposed(call.names[0], turned if op.transpose_a else there)
    b = call.transposed(call.names[1], turned if op.transpose_b else there)
    product = call.emit("MatMul", a, b)
    if op.alpha != 1:
        product = call.emit("Mul", product, call.number(op.alpha))
    product = call.transposed(product, back)
    if isinstance(op, Gemm2):
        return product
    added = call.names[2]
    if op.beta != 1:
        added = call.emit("Mul", added, call.number(op.beta))
    return call.emit("Add", product, added)


@converts(BatchDot)
def _batch_dot(call: Call, op: BatchDot) -> str:
    axes = [*range(call.data.rank - 2), call.data.rank - 1, call.data.rank - 2]
    a, b = call.names
    if op.transpose_a:
        a = call.transposed(a, axes)
    if op.transpose_b:
        b = call.transposed(b, axes)
    return call.emit("MatMul", a, b)
