"""Casts between float32 and float16."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources
from .library import library, loaded, pointer, threads

__all__ = ["cast"]

_FLOAT32, _FLOAT16 = np.dtype("float32"), np.dtype("float16")


class _Cast(Kernel):
    """A cast of the data or of its gradient.

    Args:
        count: number of elements.
        narrows: whether the cast is to float16.
        is_backward: whether it casts gradients.
    """

    name = "native:cast"
    backward_inputs = ()
    backward_outputs = ()
    inplace = ()
    uses_scratch = False

    def __init__(self, count: int, *, narrows: bool, is_backward: bool) -> None:
        self._count, self._narrows, self._is_backward = count, narrows, is_backward

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that casts."""
        source, target = arrays.inputs[0], arrays.outputs[0]
        if self._is_backward:
            source, target = arrays.out_grads[0], arrays.in_grads[0]
        function = loaded().half_from_float if self._narrows else loaded().half_to_float
        return partial(function, self._count, pointer(source), pointer(target), threads())


def cast(request: KernelRequest[object]) -> Kernel | None:
    """Prepare either pass of ``Cast``."""
    source, target = request.inputs[0], request.outputs[0]
    if request.is_backward:
        source, target = request.out_grads[0], request.in_grads[0]
    if library() is None or source is None or target is None or not math.prod(source.shape):
        return None
    dtypes = (source.dtype, target.dtype)
    if dtypes not in ((_FLOAT32, _FLOAT16), (_FLOAT16, _FLOAT32)):
        return None
    narrows = dtypes[1] == _FLOAT16
    return _Cast(math.prod(source.shape), narrows=narrows, is_backward=request.is_backward)
