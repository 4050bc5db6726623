"""Nearest-neighbour upsampling."""

from __future__ import annotations

from ...capabilities.layers import UpSampling
from ..kernel import Kernel, KernelRequest
from .constants import Algorithm, Argument, Propagation
from .kernel import PrimitiveKernel, are_float32, in_grad, input_, out_grad, output
from .memory import MemoryDesc, alternatives, any_layout
from .primitive import Primitive, first_available

__all__ = ["upsampling", "upsampling_backward"]

_NEAREST = Algorithm.RESAMPLING_NEAREST


def upsampling(request: KernelRequest[UpSampling]) -> Kernel | None:
    """Prepare the forward pass for a single input."""
    data, out = request.inputs[0], request.outputs[0]
    if not _repeats(request) or data is None or out is None:
        return None
    kind, shape = Propagation.FORWARD_TRAINING, out.shape

    def make(desc: MemoryDesc) -> Primitive:
        return Primitive.of("resampling_forward", kind, _NEAREST, None, desc, any_layout(shape))

    primitive = first_available(make, alternatives(data))
    operands = {Argument.SRC: input_(0), Argument.DST: output()}
    return PrimitiveKernel("upsampling", request, (primitive, operands))


def upsampling_backward(request: KernelRequest[UpSampling]) -> Kernel | None:
    """Prepare the backward pass: the sums over the copies of each pixel.

    They are computed as means over windows, times the windows' size, because the library's own
    backward primitive is slow in plain layouts.
    """
    data, grad = request.inputs[0], request.out_grads[0]
    if not _repeats(request) or data is None or grad is None:
        return None
    scale, shape = request.operator.scale, data.shape
    window, none = (scale, scale), (0, 0)

    def make(desc: MemoryDesc) -> Primitive:
        return Primitive.of(
            *("pooling_forward", Propagation.FORWARD_INFERENCE),
            *(Algorithm.POOLING_AVERAGE_EXCLUDE_PADDING, desc, any_layout(shape)),
            *(window, window, none, none, none),
            post=(("eltwise", Algorithm.ELTWISE_LINEAR, float(scale * scale), 0.0),),
        )

    primitive = first_available(make, alternatives(grad))
    operands = {Argument.SRC: out_grad(), Argument.DST: in_grad()}
    return PrimitiveKernel("upsampling_backward", request, (primitive, operands))


def _repeats(request: KernelRequest[UpSampling]) -> bool:
    operator = request.operator
    is_nearest = operator.sample_type == "nearest" and operator.num_args == 1
    return is_nearest and are_float32(request)
