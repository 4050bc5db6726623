"""Softmax."""

from __future__ import annotations

from core.backends.kernels import Kernel, KernelRequest
from core.backends.onednn.constants import Algorithm, Argument, Propagation
from core.backends.onednn.kernel import PrimitiveKernel, are_float32, input_, output
from core.backends.onednn.memory import MemoryDesc, plain
from core.backends.onednn.primitive import Primitive
from core.types import shape_size

__all__ = ["log_softmax", "softmax", "softmax_output"]


def softmax(request: KernelRequest) -> Kernel | None:
    """Prepare the forward pass."""
    return _along_axis(request, Algorithm.SOFTMAX_ACCURATE)


def log_softmax(request: KernelRequest) -> Kernel | None:
    """Prepare the forward pass of the logarithm."""
    return _along_axis(request, Algorithm.SOFTMAX_LOG)


def softmax_output(request: KernelRequest) -> Kernel | None:
    """Prepare the forward pass of the loss layer, whose label it does not need."""
    operator, data = request.operator, request.inputs[0]
    if not are_float32(request) or data is None:
        return None
    axis = 1
    desc = plain((data.shape[0], shape_size(data.shape[1:])))
    if operator.multi_output or operator.preserve_shape:
        axis = 1 if operator.multi_output else len(data.shape) - 1
        desc = plain(data.shape)
    return _softmax(request, Algorithm.SOFTMAX_ACCURATE, desc, axis)


def _along_axis(request: KernelRequest, algorithm: Algorithm) -> Kernel | None:
    operator, data = request.operator, request.inputs[0]
    if operator.temperature not in (None, 1.0) or operator.use_length:
        return None
    if not are_float32(request) or data is None:
        return None
    axis = operator.axis % len(data.shape)
    return _softmax(request, algorithm, plain(data.shape), axis)


def _softmax(request: KernelRequest, algorithm: Algorithm, desc: MemoryDesc, axis: int) -> Kernel:
    primitive = Primitive.of(
        "softmax_forward", Propagation.FORWARD_INFERENCE, algorithm, desc, desc, axis
    )
    operands = {Argument.SRC: input_(0), Argument.DST: output()}
    return PrimitiveKernel("softmax", request, (primitive, operands))
