"""Images made larger by repeating pixels."""

from __future__ import annotations

from ...types import Shape
from ..kernels import Kernel, KernelRequest
from .constants import Algorithm, Argument, Propagation
from .kernel import (
    PrimitiveKernel,
    are_float32,
    in_grad,
    input_,
    out_grad,
    output,
)
from .memory import MemoryDesc, alternatives, any_layout
from .primitive import Primitive, first_available

__all__ = ["upsampling", "upsampling_backward"]

_NEAREST = Algorithm.RESAMPLING_NEAREST


def upsampling(request: KernelRequest) -> Kernel | None:
    """Prepare the forward pass, for one input."""
    data, out = request.inputs[0], request.outputs[0]
    if not _repeats(request) or data is None or out is None:
        return None
    shape = out.shape

    def make(desc: MemoryDesc) -> Primitive:
        return _forward(desc, shape)

    primitive = first_available(make, alternatives(data))
    operands = {Argument.SRC: input_(0), Argument.DST: output()}
    return PrimitiveKernel("upsampling", request, (primitive, operands))


def upsampling_backward(request: KernelRequest) -> Kernel | None:
    """Prepare the backward pass: sums over the copies of each pixel."""
    data, grad = request.inputs[0], request.out_grads[0]
    if not _repeats(request) or data is None or grad is None:
        return None
    shape = grad.shape

    def make(desc: MemoryDesc) -> Primitive:
        hint = _forward(desc, shape)
        return Primitive.of(
            "resampling_backward", _NEAREST, None, desc, hint.desc(Argument.DST), hint
        )

    primitive = first_available(make, alternatives(data))
    operands = {Argument.DIFF_DST: out_grad(), Argument.DIFF_SRC: in_grad()}
    return PrimitiveKernel("upsampling_backward", request, (primitive, operands))


def _forward(data: MemoryDesc, out: Shape) -> Primitive:
    kind = Propagation.FORWARD_TRAINING
    return Primitive.of("resampling_forward", kind, _NEAREST, None, data, any_layout(out))


def _repeats(request: KernelRequest) -> bool:
    operator = request.operator
    is_nearest = operator.sample_type == "nearest" and operator.num_args == 1
    return is_nearest and are_float32(request)
