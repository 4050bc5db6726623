"""Softmax and its relatives along one axis."""

from __future__ import annotations

import numpy as np

from ...capabilities.arrays import AlongAxis, SoftmaxActivation, SoftmaxOutput
from ...types import Array, shape_size
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources
from .kernel import CudaKernel, present, storage_type
from .launch import Call
from .rows import Rows

__all__ = [
    "log_softmax",
    "log_softmax_backward",
    "softmax",
    "softmax_activation",
    "softmax_activation_backward",
    "softmax_backward",
    "softmax_output",
    "softmin",
    "softmin_backward",
]

_SOURCE = "softmax.cu"


def softmax(request: KernelRequest[AlongAxis]) -> Kernel | None:
    """Prepare the forward pass."""
    return _along_axis(request)


def softmin(request: KernelRequest[AlongAxis]) -> Kernel | None:
    """Prepare the forward pass on the negated data."""
    return _along_axis(request, sign=-1.0)


def log_softmax(request: KernelRequest[AlongAxis]) -> Kernel | None:
    """Prepare the forward pass of log-softmax."""
    return _along_axis(request, of_logarithm=True)


def softmax_activation(request: KernelRequest[SoftmaxActivation]) -> Kernel | None:
    """Prepare the forward pass over the last axis or the channels."""
    data = request.inputs[0]
    kind = storage_type(data, request.outputs[0])
    if kind is None or data is None:
        return None
    axis = 1 if request.operator.mode == "channel" else len(data.shape) - 1
    return _forward(Rows.along(kind, data, axis))


def softmax_output(request: KernelRequest[SoftmaxOutput]) -> Kernel | None:
    """Prepare the forward pass of the loss layer, whose label it does not need."""
    operator, data = request.operator, request.inputs[0]
    kind = storage_type(data, request.outputs[0])
    if kind is None or data is None:
        return None
    if operator.multi_output:
        return _forward(Rows.along(kind, data, 1))
    if operator.preserve_shape:
        return _forward(Rows.along(kind, data, -1))
    view = (data.shape[0], shape_size(data.shape[1:]), 1)
    return _forward(Rows.of(kind, data, view))


def softmax_backward(request: KernelRequest[AlongAxis]) -> Kernel | None:
    """Prepare the backward pass."""
    return _backward_along_axis(request)


def softmin_backward(request: KernelRequest[AlongAxis]) -> Kernel | None:
    """Prepare the backward pass on the negated data."""
    return _backward_along_axis(request, sign=-1.0)


def log_softmax_backward(request: KernelRequest[AlongAxis]) -> Kernel | None:
    """Prepare the backward pass of log-softmax."""
    return _backward_along_axis(request, of_logarithm=True)


def softmax_activation_backward(request: KernelRequest[SoftmaxActivation]) -> Kernel | None:
    """Prepare the backward pass; like MXNet's, it uses axis 1 in both modes."""
    out = request.outputs[0]
    kind = storage_type(out, *request.out_grads, *request.in_grads)
    if kind is None or out is None or request.in_grads[0] is None:
        return None
    return _backward(Rows.along(kind, out, min(1, len(out.shape) - 1)))


def _along_axis(
    request: KernelRequest[AlongAxis], sign: float = 1.0, *, of_logarithm: bool = False
) -> Kernel | None:
    operator, data = request.operator, request.inputs[0]
    kind, factor = storage_type(data, request.outputs[0]), _factor(operator, sign)
    if kind is None or data is None or factor is None:
        return None
    return _forward(Rows.along(kind, data, operator.axis), factor, of_logarithm)


def _backward_along_axis(
    request: KernelRequest[AlongAxis], sign: float = 1.0, *, of_logarithm: bool = False
) -> Kernel | None:
    operator, out = request.operator, request.outputs[0]
    kind = storage_type(out, request.out_grads[0], request.in_grads[0])
    factor = _factor(operator, sign)
    if kind is None or out is None or factor is None or request.in_grads[0] is None:
        return None
    return _backward(Rows.along(kind, out, operator.axis), factor, of_logarithm)


def _factor(operator: AlongAxis, sign: float) -> float | None:
    """Return the factor of the data; None if lengths limit the elements that count."""
    if operator.use_length or operator.temperature == 0:
        return None
    return sign / (operator.temperature or 1)


def _forward(rows: Rows, factor: float = 1.0, of_logarithm: bool = False) -> Kernel:
    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        operands = present(arrays.inputs[0]), present(arrays.outputs[0])
        return rows.call(_SOURCE, "softmax", *operands, factor, np.int32(of_logarithm))

    return CudaKernel("softmax", bind, inplace=((0, 0),))


def _backward(rows: Rows, factor: float = 1.0, of_logarithm: bool = False) -> Kernel:
    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        operands: tuple[Array, ...] = (
            present(arrays.outputs[0]),
            present(arrays.out_grads[0]),
            present(arrays.in_grads[0]),
        )
        return rows.call(_SOURCE, "softmax_backward", *operands, factor, np.int32(of_logarithm))

    return CudaKernel(
        "softmax_backward", bind, inplace=((0, 0),), backward_inputs=(), backward_outputs=(0,)
    )
