"""Local response normalization (LRN) over neighbouring channels."""

from __future__ import annotations

import dataclasses

from ...capabilities.fused import FusedLocalResponse
from ...capabilities.layers import LocalResponse
from ..kernel import Kernel, KernelRequest, KernelUnavailable
from .constants import Algorithm, Argument
from .kernel import (
    PrimitiveKernel,
    are_float32,
    forward_propagation,
    in_grad,
    input_,
    out_grad,
    output,
    workspace,
)
from .memory import MemoryDesc, desc_of, strided
from .primitive import Primitive

__all__ = ["local_response", "local_response_backward"]

_ALGORITHM = Algorithm.LRN_ACROSS_CHANNELS
_IMAGE_AXES = 4
_SOUND_SIZES = (3, 5)
"""Window sizes supported in training. With larger ones oneDNN 3.2 computes wrong gradients if the
last block of channels is not full, and with 1 it crashes."""


def local_response(request: KernelRequest[FusedLocalResponse]) -> Kernel | None:
    """Prepare the forward pass of an LRN without its sums."""
    fused = request.operator
    if not _is_supported(request, fused.layer):
        return None
    primitive, _ = _primitives(request, fused.layer)
    operands = {Argument.SRC: input_(0), Argument.DST: output()}
    if primitive.optional_desc(Argument.WORKSPACE) is not None:
        operands[Argument.WORKSPACE] = workspace
    return PrimitiveKernel("local_response", request, (primitive, operands), inplace=())


def local_response_backward(request: KernelRequest[FusedLocalResponse]) -> Kernel | None:
    """Prepare the backward pass."""
    fused = request.operator
    if not _is_supported(request, fused.layer) or not isinstance(request.forward, PrimitiveKernel):
        return None
    # There is a backward primitive for a forward primitive of training only.
    _, primitive = _primitives(dataclasses.replace(request, is_train=True), fused.layer)
    assert primitive is not None
    operands = {
        Argument.SRC: input_(0),
        Argument.DIFF_DST: out_grad(),
        Argument.DIFF_SRC: in_grad(),
    }
    if primitive.optional_desc(Argument.WORKSPACE) is not None:
        operands[Argument.WORKSPACE] = workspace
    return PrimitiveKernel("local_response_backward", request, (primitive, operands), inplace=())


def _primitives(
    request: KernelRequest[object], layer: LocalResponse
) -> tuple[Primitive, Primitive | None]:
    """Return the primitives of both passes, the second in training only.

    They use the layout of the data if oneDNN supports it, otherwise channels-last.

    Raises:
        KernelUnavailable: oneDNN supports neither.
    """
    data = request.inputs[0]
    assert data is not None
    try:
        return _primitives_in(desc_of(data), request, layer)
    except KernelUnavailable:
        _, channels, height, width = data.shape
        strides = (channels * height * width, 1, channels * width, channels)
        return _primitives_in(strided(data.shape, strides), request, layer)


def _primitives_in(
    desc: MemoryDesc, request: KernelRequest[object], layer: LocalResponse
) -> tuple[Primitive, Primitive | None]:
    parameters = (layer.nsize, layer.alpha, layer.beta, layer.knorm)
    propagation = forward_propagation(request)
    forward = Primitive.of("lrn_forward", propagation, _ALGORITHM, desc, desc, *parameters)
    if not request.is_train:
        return forward, None
    return forward, Primitive.of("lrn_backward", _ALGORITHM, desc, desc, desc, *parameters, forward)


def _is_supported(request: KernelRequest[object], layer: LocalResponse) -> bool:
    """Return whether oneDNN computes the right result."""
    data, size = request.inputs[0], layer.nsize
    is_sound = size in _SOUND_SIZES if request.is_train or request.is_backward else size > 1
    return are_float32(request) and data is not None and len(data.shape) == _IMAGE_AXES and is_sound
