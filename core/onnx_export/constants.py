"""Tensors that depend only on shapes."""

from __future__ import annotations

import numpy as np

from ..device import cpu
from ..ndarray.execute import execute
from ..ops.contrib.multibox import MultiBoxPrior
from ..ops.identity import ShapeArray, SizeArray
from ..ops.init import ArangeLike, Full, Ones, Zeros
from .conversion import Call, converts


@converts(Zeros, Ones, Full)
def _filled(call: Call, op: Zeros | Ones | Full) -> str:
    # A single value is expanded, so the shape may depend on the batch size.
    values = {Zeros: 0.0, Ones: 1.0}
    value = op.value if isinstance(op, Full) else values[type(op)]
    return call.expanded(call.number(value), call.output)


@converts(ShapeArray, reads=(0,))
def _shape_array(call: Call, op: ShapeArray) -> str:
    return call.shape_vector(call.data)


@converts(SizeArray, reads=(0,))
def _size_array(call: Call, op: SizeArray) -> str:
    return call.emit("ReduceProd", call.shape_vector(call.data), axes=[0], keepdims=1)


@converts(ArangeLike, reads=(0,))
def _arange_like(call: Call, op: ArangeLike) -> str:
    return _computed(call, op)


@converts(MultiBoxPrior, reads=(0,))
def _multi_box_prior(call: Call, op: MultiBoxPrior) -> str:
    return _computed(call, op)


def _computed(call: Call, op: ArangeLike | MultiBoxPrior) -> str:
    """Return the operator's output, which depends only on the data's shape, as a constant."""
    if not call.output.is_static:
        raise call.cannot("its length depends on the batch size")
    (out,) = execute(op, cpu(), [np.zeros(call.data.shape, call.data.dtype)])
    return call.constant(out, out.dtype)
