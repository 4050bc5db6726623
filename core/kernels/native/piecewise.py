"""ReLU, absolute value and clip, whose results and gradients at NaN are those of MXNet.

oneDNN computes them as fast, but makes numbers of NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...capabilities.arrays import HasFunction
from ...capabilities.functions import Function, Pointwise, is_relu
from ...types import Shape
from ..kernel import (
    Kernel,
    KernelArrays,
    KernelLayouts,
    KernelRequest,
    KernelResources,
    Layout,
    TensorSpec,
)
from ..onednn.kernel import are_float32
from .library import library, loaded, pointer, threads

__all__ = ["piecewise", "piecewise_backward"]

_FLOAT32 = np.dtype("float32")
_FUNCTIONS = (Function.RELU, Function.ABSOLUTE, Function.CLIP)
"""In the order of the C enumeration."""


class _Piecewise(Kernel):
    """A function of each element, in any layout.

    Args:
        function: the function.
        tensor: shape and layout of all tensors.
    """

    name = "native:piecewise"
    uses_scratch = False

    def __init__(self, function: Pointwise, tensor: TensorSpec) -> None:
        number = _FUNCTIONS.index(function.function)
        count = _count(tensor.shape, tensor.layout)
        self._arguments = (number, count, function.alpha, function.beta)
        self.layouts = KernelLayouts((tensor.layout,), (tensor.layout,))

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes the values."""
        tensors = map(pointer, (arrays.inputs[0], arrays.outputs[0]))
        return partial(loaded().piecewise_forward, *self._arguments, *tensors, threads())


class _PiecewiseBackward(_Piecewise):
    """The gradient: of a ReLU from its output, of others from the input."""

    name = "native:piecewise_backward"

    def __init__(self, function: Pointwise, tensor: TensorSpec) -> None:
        super().__init__(function, tensor)
        self._reads_output = is_relu(function)
        self.backward_inputs = () if self._reads_output else (0,)
        self.backward_outputs = (0,) if self._reads_output else ()
        self.layouts = KernelLayouts(*(((tensor.layout,),) * 4))

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes the gradient."""
        seen = (arrays.outputs if self._reads_output else arrays.inputs)[0]
        tensors = map(pointer, (seen, arrays.out_grads[0], arrays.in_grads[0]))
        return partial(loaded().piecewise_backward, *self._arguments, *tensors, threads())


def piecewise(request: KernelRequest[HasFunction]) -> Kernel | None:
    """Prepare the forward pass of a ReLU or clip that keeps NaN."""
    function, data = _function(request), request.inputs[0]
    if function is None or function.function is Function.ABSOLUTE or data is None:
        return None
    return _Piecewise(function, data)


def piecewise_backward(request: KernelRequest[HasFunction]) -> Kernel | None:
    """Prepare the gradient of an absolute value, or of a ReLU or clip that keeps NaN."""
    function = _function(request)
    if function is None:
        return None
    seen = request.outputs[0] if is_relu(function) else request.out_grads[0]
    return None if seen is None else _PiecewiseBackward(function, seen)


def _function(request: KernelRequest[HasFunction]) -> Pointwise | None:
    """Return the function if there is a kernel for it and its tensors."""
    function = request.operator.pointwise()
    if function is None or not function.keeps_nan or library() is None or not are_float32(request):
        return None
    is_known = is_relu(function) or function.function in (Function.ABSOLUTE, Function.CLIP)
    return function if is_known else None


def _count(shape: Shape, layout: Layout | None) -> int:
    """Return the number of elements, with those that only fill up the layout."""
    return math.prod(shape) if layout is None else layout.nbytes(shape, _FLOAT32) // 4
