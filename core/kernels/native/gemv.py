"""Fully connected layers of a single row.

oneDNN takes longer to begin a small product than to compute it, and copies each weight into a
layout of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...capabilities.functions import Function
from ...capabilities.fused import FusedDense
from ...capabilities.layers import Dense
from ...types import shape_size
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources
from ..onednn.kernel import are_float32
from .call import NativeCall
from .library import library, loaded, pointer, threads
from .structures import MatrixVector

__all__ = ["fully_connected", "fused_fully_connected"]


class _MatrixVector(Kernel):
    """Multiplies a weight by a vector, adds the bias and applies ReLU.

    Args:
        outputs, inputs: shape of the weight.
        has_bias: whether the last input is a bias.
        slope: slope below zero of the activation: 0 for ReLU, 1 for none.
    """

    name = "native:fully_connected"
    inplace = ()
    uses_scratch = False

    def __init__(self, outputs: int, inputs: int, *, has_bias: bool, slope: float) -> None:
        self._outputs, self._inputs = outputs, inputs
        self._has_bias, self._slope = has_bias, slope

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a call that computes the row."""
        data, weight = arrays.inputs[:2]
        parameters = MatrixVector(
            self._outputs,
            self._inputs,
            pointer(weight),
            pointer(data),
            pointer(arrays.inputs[2]) if self._has_bias else None,
            pointer(arrays.outputs[0]),
            self._slope,
            threads(),
        )
        return NativeCall.of(loaded().gemv, parameters)


def fully_connected(request: KernelRequest[Dense]) -> Kernel | None:
    """Prepare the forward pass of one row in inference."""
    return _prepare(request, request.operator, 1.0)


def fused_fully_connected(request: KernelRequest[FusedDense]) -> Kernel | None:
    """Prepare a layer whose activation is ReLU, which may be leaky."""
    fused = request.operator
    function = None if fused.activation is None else fused.activation.pointwise()
    if function is None or function.function is not Function.RELU:
        return None
    return _prepare(request, fused.layer, function.alpha)


def _prepare(request: KernelRequest[Any], layer: Dense, slope: float) -> Kernel | None:
    data, weight = request.inputs[:2]
    if library() is None or request.is_train or request.in_bfloat16 or not are_float32(request):
        return None
    if data is None or weight is None or shape_size(data.shape) != weight.shape[1]:
        return None
    return _MatrixVector(*weight.shape, has_bias=not layer.no_bias, slope=slope)
