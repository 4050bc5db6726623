"""The largest or the smallest elements along the last axis."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from ...capabilities.arrays import TopK
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources, TensorSpec
from ..onednn.kernel import are_float32
from .library import library, loaded, pointer, threads

__all__ = ["leading"]

_MOST = 256
"""Elements that the C function finds at most in a row."""
_MANY_TIMES = 8
"""It inserts each element that it finds into a list, which pays where it finds few of many."""
_MOST_PLACES = 1 << 24
"""Length of a row up to which float32 has all positions."""


class _Leading(Kernel):
    """Writes positions, and values where they are wanted.

    Args:
        operator: the operator.
        data: what is searched.
        length: elements of a row.
    """

    name = "native:topk"
    inplace = ()
    uses_scratch = False

    def __init__(self, operator: TopK, data: TensorSpec, length: int) -> None:
        self._has_values = operator.ret_typ in ("value", "both")
        rows = math.prod(data.shape) // length
        self._sizes = (rows, length, operator.k, operator.is_ascend)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that searches all rows."""
        values = pointer(arrays.outputs[0]) if self._has_values else None
        operands = (pointer(arrays.inputs[0]), values, pointer(arrays.outputs[-1]))
        return partial(loaded().leading, *self._sizes, *operands, threads())


def leading(request: KernelRequest[TopK]) -> Kernel | None:
    """Prepare ``topk`` of few elements along the last axis."""
    operator, data = request.operator, request.inputs[0]
    if library() is None or data is None or not are_float32(request):
        return None
    if operator.ret_typ == "mask" or operator.axis not in (None, -1, len(data.shape) - 1):
        return None
    length = math.prod(data.shape) if operator.axis is None else data.shape[-1]
    if not 0 < operator.k <= min(_MOST, length // _MANY_TIMES) or length > _MOST_PLACES:
        return None
    return _Leading(operator, data, length)
