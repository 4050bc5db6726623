"""The gamma function, its logarithm, and the inverse error function."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from ...capabilities.arrays import HasFunction
from ...capabilities.functions import Function
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources
from ..onednn.kernel import are_float32, present
from .library import library, loaded, pointer, threads

__all__ = ["special"]

_FUNCTIONS = (Function.GAMMA, Function.LOG_GAMMA, Function.INVERSE_ERF)
"""In the order of the C enumeration."""


class _Special(Kernel):
    """A function of each element.

    Args:
        function: the function's number in C.
    """

    name = "native:special"
    uses_scratch = False

    def __init__(self, function: int) -> None:
        self._function = function

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes the values."""
        x, y = present(arrays.inputs[0]), arrays.outputs[0]
        call, sizes = loaded().special_forward, (self._function, math.prod(x.shape))
        return partial(call, *sizes, pointer(x), pointer(y), threads())


class _SpecialBackward(_Special):
    """The gradient, from what the reference reads as well."""

    name = "native:special_backward"

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes the gradient."""
        is_inverse = _FUNCTIONS[self._function] is Function.INVERSE_ERF
        seen = present((arrays.outputs if is_inverse else arrays.inputs)[0])
        operands = (seen, arrays.out_grads[0], arrays.in_grads[0])
        call, sizes = loaded().special_backward, (self._function, math.prod(seen.shape))
        return partial(call, *sizes, *map(pointer, operands), threads())


def special(request: KernelRequest[HasFunction]) -> Kernel | None:
    """Prepare either pass of a special function."""
    function = request.operator.pointwise()
    if function is None or function.function not in _FUNCTIONS:
        return None
    if library() is None or not are_float32(request):
        return None
    number = _FUNCTIONS.index(function.function)
    return (_SpecialBackward if request.is_backward else _Special)(number)
