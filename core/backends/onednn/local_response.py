"""Normalization by neighbouring channels, in inference."""

from __future__ import annotations

from core.backends.kernels import Kernel, KernelRequest
from core.backends.onednn.constants import Algorithm, Argument, Propagation
from core.backends.onednn.kernel import PrimitiveKernel, are_float32, input_, output
from core.backends.onednn.memory import desc_of
from core.backends.onednn.primitive import Primitive

__all__ = ["local_response"]


def local_response(request: KernelRequest) -> Kernel | None:
    """Prepare the forward pass of an LRN whose sums nobody reads, in the layout of the data."""
    operator, data = request.operator.layer, request.inputs[0]
    if not are_float32(request) or data is None or len(data.shape) != 4:
        return None
    desc = desc_of(data)
    primitive = Primitive.of(
        "lrn_forward",
        Propagation.FORWARD_INFERENCE,
        Algorithm.LRN_ACROSS_CHANNELS,
        desc,
        desc,
        operator.nsize,
        operator.alpha,
        operator.beta,
        operator.knorm,
    )
    operands = {Argument.SRC: input_(0), Argument.DST: output()}
    return PrimitiveKernel("local_response", request, (primitive, operands), inplace=())
