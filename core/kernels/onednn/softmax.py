"""Softmax."""

from __future__ import annotations

from ...capabilities.arrays import AlongAxis, SoftmaxActivation, SoftmaxOutput
from ...types import shape_size
from ..kernel import Kernel, KernelRequest, TensorSpec
from .constants import Algorithm, Argument, Propagation
from .kernel import PrimitiveKernel, are_float32, in_grad, input_, out_grad, output
from .memory import MemoryDesc, desc_of, innermost, plain
from .primitive import Primitive, first_available

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

_FEW_CLASSES = 32
"""Smallest number of classes, other than along the last axis, for which oneDNN is faster: its time
does not fall with fewer, and 65,000 places of 8 classes take six times as long as the reference."""


def softmax(request: KernelRequest[AlongAxis]) -> Kernel | None:
    """Prepare the forward pass."""
    return _along_axis(request, Algorithm.SOFTMAX_ACCURATE)


def softmin(request: KernelRequest[AlongAxis]) -> Kernel | None:
    """Prepare the forward pass on the negated data."""
    return _along_axis(request, Algorithm.SOFTMAX_ACCURATE, sign=-1.0)


def log_softmax(request: KernelRequest[AlongAxis]) -> Kernel | None:
    """Prepare the forward pass of log-softmax."""
    return _along_axis(request, Algorithm.SOFTMAX_LOG)


def softmax_activation(request: KernelRequest[SoftmaxActivation]) -> Kernel | None:
    """Prepare the forward pass over the last axis or the channels."""
    data = request.inputs[0]
    if not are_float32(request) or data is None:
        return None
    axis = 1 if request.operator.mode == "channel" else len(data.shape) - 1
    return _forward(request, Algorithm.SOFTMAX_ACCURATE, data, axis)


def softmax_output(request: KernelRequest[SoftmaxOutput]) -> Kernel | None:
    """Prepare the forward pass of the loss layer, whose label it does not need."""
    operator, data = request.operator, request.inputs[0]
    if not are_float32(request) or data is None:
        return None
    if operator.multi_output or operator.preserve_shape:
        axis = 1 if operator.multi_output else len(data.shape) - 1
        return _forward(request, Algorithm.SOFTMAX_ACCURATE, data, axis)
    desc = plain((data.shape[0], shape_size(data.shape[1:])))
    primitive = _primitive(Algorithm.SOFTMAX_ACCURATE, desc, 1)
    operands = {Argument.SRC: input_(0), Argument.DST: output()}
    return PrimitiveKernel("softmax", request, (primitive, operands))


def softmax_backward(request: KernelRequest[AlongAxis]) -> Kernel | None:
    """Prepare the backward pass."""
    return _backward_along_axis(request, Algorithm.SOFTMAX_ACCURATE)


def softmin_backward(request: KernelRequest[AlongAxis]) -> Kernel | None:
    """Prepare the backward pass on the negated data."""
    return _backward_along_axis(request, Algorithm.SOFTMAX_ACCURATE, sign=-1.0)


def log_softmax_backward(request: KernelRequest[AlongAxis]) -> Kernel | None:
    """Prepare the backward pass of log-softmax."""
    return _backward_along_axis(request, Algorithm.SOFTMAX_LOG)


def softmax_activation_backward(request: KernelRequest[SoftmaxActivation]) -> Kernel | None:
    """Prepare the backward pass; like MXNet's, it uses axis 1 in both modes."""
    out = request.outputs[0]
    if not are_float32(request) or out is None:
        return None
    return _backward(request, Algorithm.SOFTMAX_ACCURATE, out, min(1, len(out.shape) - 1))


def _along_axis(
    request: KernelRequest[AlongAxis], algorithm: Algorithm, sign: float = 1.0
) -> Kernel | None:
    data, factor = request.inputs[0], _factor(request, sign)
    if factor is None or data is None:
        return None
    axis = request.operator.axis % len(data.shape)
    return _forward(request, algorithm, data, axis, factor)


def _backward_along_axis(
    request: KernelRequest[AlongAxis], algorithm: Algorithm, sign: float = 1.0
) -> Kernel | None:
    out, factor = request.outputs[0], _factor(request, sign)
    if factor is None or out is None or request.in_grads[0] is None:
        return None
    return _backward(request, algorithm, out, request.operator.axis % len(out.shape), factor)


def _factor(request: KernelRequest[AlongAxis], sign: float) -> float | None:
    """Return the factor of the data; None if lengths limit the elements that count."""
    operator = request.operator
    is_whole = not operator.use_length and operator.temperature != 0
    return sign / (operator.temperature or 1) if is_whole and are_float32(request) else None


def _forward(
    request: KernelRequest[object],
    algorithm: Algorithm,
    data: TensorSpec,
    axis: int,
    factor: float = 1.0,
) -> Kernel | None:
    def make(desc: MemoryDesc) -> Primitive:
        return _primitive(algorithm, desc, axis)

    if _is_narrow(data, axis):
        return None
    primitive = first_available(make, _layouts(data, axis))
    operands = {Argument.SRC: input_(0), Argument.DST: output()}
    if factor == 1:
        return PrimitiveKernel("softmax", request, (primitive, operands))
    scale = _scaling(primitive.desc(Argument.DST), factor)
    in_place = {Argument.SRC: output(), Argument.DST: output()}
    return PrimitiveKernel("softmax", request, (scale, operands), (primitive, in_place))


def _backward(
    request: KernelRequest[object],
    algorithm: Algorithm,
    out: TensorSpec,
    axis: int,
    factor: float = 1.0,
) -> Kernel | None:
    def make(desc: MemoryDesc) -> Primitive:
        hint = _primitive(algorithm, desc, axis)
        return Primitive.of("softmax_backward", algorithm, desc, desc, desc, axis, hint)

    if _is_narrow(out, axis):
        return None
    primitive = first_available(make, _layouts(out, axis))
    operands = {
        Argument.DST: output(),
        Argument.DIFF_DST: out_grad(),
        Argument.DIFF_SRC: in_grad(),
    }
    launches = [(primitive, operands)]
    if factor != 1:
        scale = _scaling(primitive.desc(Argument.DIFF_SRC), factor)
        launches.append((scale, {Argument.SRC: in_grad(), Argument.DST: in_grad()}))
    return PrimitiveKernel("softmax_backward", request, *launches)


def _scaling(desc: MemoryDesc, factor: float) -> Primitive:
    """Return the primitive that multiplies by a factor."""
    kind, linear = Propagation.FORWARD_INFERENCE, Algorithm.ELTWISE_LINEAR
    return Primitive.of("eltwise_forward", kind, linear, desc, desc, factor, 0.0)


def _primitive(algorithm: Algorithm, desc: MemoryDesc, axis: int) -> Primitive:
    kind = Propagation.FORWARD_TRAINING
    return Primitive.of("softmax_forward", kind, algorithm, desc, desc, axis)


def _is_narrow(spec: TensorSpec, axis: int) -> bool:
    """Return whether the reference is faster: it makes one vectorized pass per class, oneDNN one
    pass per place."""
    return axis < len(spec.shape) - 1 and spec.shape[axis] < _FEW_CLASSES


def _layouts(spec: TensorSpec, axis: int) -> tuple[MemoryDesc, ...]:
    """Return the tensor's own layout, then the one with contiguous classes."""
    return tuple(dict.fromkeys((desc_of(spec), innermost(spec.shape, axis))))
