"""The gradient of ``clip``: the output's gradient where the data is within the bounds."""

from __future__ import annotations

from ...capabilities.functions import Pointwise
from ..kernels import Kernel, KernelRequest
from .constants import Algorithm, Argument, Propagation
from .kernel import (
    PrimitiveKernel,
    are_float32,
    in_grad,
    input_,
    out_grad,
)
from .memory import MemoryDesc, alternatives, desc_of
from .primitive import Primitive, first_available

__all__ = ["clip_backward"]


def clip_backward(request: KernelRequest[object], clipping: Pointwise) -> Kernel | None:
    """Prepare the gradient: that of the output where clipping leaves the data unchanged.

    oneDNN's own gradient of clipping is 0 at the lower bound, where MXNet's is 1. oneDNN clips NaN
    to a number, which compares unequal to NaN, so its gradient is 0.
    """
    data, grad = request.inputs[0], request.out_grads[0]
    if not are_float32(request) or data is None or grad is None:
        return None
    bounds = clipping.alpha, clipping.beta

    def make(desc: MemoryDesc) -> tuple[Primitive, Primitive]:
        kind, clip = Propagation.FORWARD_TRAINING, Algorithm.ELTWISE_CLIP
        masked = (("binary", Algorithm.BINARY_MULTIPLY, desc),)
        return (
            Primitive.of("eltwise_forward", kind, clip, desc, desc, *bounds),
            Primitive.of("binary", Algorithm.BINARY_EQUAL, desc, desc, desc, post=masked),
        )

    clip, compare = first_available(make, (desc_of(grad), *alternatives(data)))
    clipped = {Argument.SRC: input_(0), Argument.DST: in_grad()}
    compared = {
        Argument.SRC: in_grad(),
        Argument.SRC_1: input_(0),
        Argument.of_post_operation(0): out_grad(),
        Argument.DST: in_grad(),
    }
    return PrimitiveKernel(
        "clip_backward", request, (clip, clipped), (compare, compared), inplace=()
    )
