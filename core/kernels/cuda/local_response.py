"""Local response normalization, and the leaky ReLU with a slope for each channel."""

from __future__ import annotations

import numpy as np

from ...capabilities.fused import FusedLocalResponse
from ...capabilities.layers import LocalResponse
from ...types import Array, shape_size
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources, TensorSpec
from .kernel import CudaKernel, element_macros, present, specs_of, storage_type
from .launch import Call, call, divisor, function, grid_of, in_turn
from .reduction import Reduced

__all__ = [
    "fused_local_response",
    "fused_local_response_backward",
    "local_response",
    "local_response_backward",
    "prelu",
    "prelu_backward",
]

_SOURCE = "local_response.cu"
_WINDOW = np.dtype([("factor", "<f4"), ("beta", "<f4"), ("knorm", "<f4"), ("half", "<i4")])
"""``Window`` of ``local_response.cu``."""


def local_response(request: KernelRequest[LocalResponse]) -> Kernel | None:
    """Prepare the forward pass, which keeps the sums as an output."""
    data, kind = request.inputs[0], storage_type(*specs_of(request))
    if kind is None or data is None:
        return None

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        operands = tuple(map(present, (arrays.inputs[0], *arrays.outputs)))
        return _call("local_response", kind, data, request.operator, operands)

    return CudaKernel("local_response", bind)


def fused_local_response(request: KernelRequest[FusedLocalResponse]) -> Kernel | None:
    """Prepare the forward pass, which keeps the sums for the backward pass if there may be one."""
    data, kind = request.inputs[0], storage_type(request.inputs[0], request.outputs[0])
    if kind is None or data is None:
        return None
    layer = request.operator.layer

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        ends = present(arrays.inputs[0]), present(arrays.outputs[0])
        sums = arrays.workspace if request.is_train else None
        return _call("local_response", kind, data, layer, (*ends, sums))

    kept = shape_size(data.shape) * data.dtype.itemsize if request.is_train else 0
    return CudaKernel("local_response", bind, workspace_bytes=kept)


def local_response_backward(request: KernelRequest[LocalResponse]) -> Kernel | None:
    """Prepare the backward pass."""
    data, kind = request.inputs[0], storage_type(*specs_of(request))
    if kind is None or data is None or request.in_grads[0] is None:
        return None

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        seen = arrays.inputs[0], arrays.outputs[1]
        operands = tuple(map(present, (*seen, arrays.out_grads[0], arrays.in_grads[0])))
        return _call("local_response_backward", kind, data, request.operator, operands)

    return CudaKernel("local_response_backward", bind, backward_inputs=(0,), backward_outputs=(1,))


def fused_local_response_backward(request: KernelRequest[FusedLocalResponse]) -> Kernel | None:
    """Prepare the backward pass if the forward pass kept the sums."""
    data, forward = request.inputs[0], request.forward
    kind = storage_type(data, request.out_grads[0], request.in_grads[0])
    if kind is None or data is None or request.in_grads[0] is None or not request.is_train:
        return None
    if not isinstance(forward, CudaKernel) or not forward.workspace_bytes:
        return None
    layer = request.operator.layer

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        seen = arrays.inputs[0], arrays.workspace
        operands = tuple(map(present, (*seen, arrays.out_grads[0], arrays.in_grads[0])))
        return _call("local_response_backward", kind, data, layer, operands)

    return CudaKernel("local_response_backward", bind, backward_inputs=(0,), backward_outputs=())


def _call(
    name: str,
    kind: str,
    data: TensorSpec,
    layer: LocalResponse,
    operands: tuple[Array | None, ...],
) -> Call:
    size = shape_size(data.shape)
    numbers = (layer.alpha / layer.nsize, layer.beta, layer.knorm, layer.nsize // 2)
    compute = function(_SOURCE, name, *element_macros(kind, data))
    window = np.array(numbers, _WINDOW)
    return call(compute, grid_of(size), size, *operands, *_channels(data), window)


def _channels(data: TensorSpec) -> tuple[Array, Array]:
    """Return the divisors by the elements of a channel, and by the number of channels."""
    return divisor(shape_size(data.shape[2:])), divisor(data.shape[1])


# -- slopes ---------------------------------------------------------------------------------------


def prelu(request: KernelRequest[object]) -> Kernel | None:
    """Prepare the forward pass with one slope for each channel, or one for all."""
    data, kind = request.inputs[0], storage_type(*specs_of(request))
    if kind is None or data is None or not _has_slopes(request):
        return None
    size = shape_size(data.shape)

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        compute = function(_SOURCE, "prelu", *element_macros(kind, data))
        seen, slopes = map(present, arrays.inputs)
        operands = (seen, present(arrays.outputs[0]), slopes)
        return call(compute, grid_of(size, data.dtype), size, *operands, *_slopes(data, slopes))

    return CudaKernel("prelu", bind, inplace=((0, 0),))


def prelu_backward(request: KernelRequest[object]) -> Kernel | None:
    """Prepare the gradients of data and slopes."""
    data, kind = request.inputs[0], storage_type(*specs_of(request))
    slopes_spec = request.inputs[1]
    if kind is None or data is None or slopes_spec is None or not _has_slopes(request):
        return None
    kept = 1 if slopes_spec.shape != (1,) or data.shape[1] == 1 else -1
    axes = tuple(axis for axis in range(len(data.shape)) if axis != kept)
    reduced = Reduced.of(kind, data, axes)
    if reduced is None:
        return None
    size = shape_size(data.shape)

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        seen, slopes = map(present, arrays.inputs)
        dy, (data_grad, slopes_grad) = present(arrays.out_grads[0]), arrays.in_grads
        calls = []
        if slopes_grad is not None:
            terms = {"reduce": "SumBelow", "term": "PRODUCT", "other": dy}
            calls.append(reduced.forward(seen, slopes_grad, resources.scratchpad, **terms))
        if data_grad is not None:
            compute = function(_SOURCE, "prelu_backward", *element_macros(kind, data))
            operands = (seen, dy, data_grad, slopes, *_slopes(data, slopes))
            calls.append(call(compute, grid_of(size, data.dtype), size, *operands))
        return in_turn(calls)

    return CudaKernel(
        "prelu_backward",
        bind,
        backward_inputs=(0, 1),
        backward_outputs=(),
        scratchpad_bytes=reduced.scratchpad_bytes,
    )


def _has_slopes(request: KernelRequest[object]) -> bool:
    data, slopes = request.inputs
    assert data is not None
    return slopes is not None and len(slopes.shape) == 1 and len(data.shape) > 1


def _slopes(data: TensorSpec, slopes: Array) -> tuple[Array, Array]:
    inner, channels = _channels(data)
    return inner, channels if slopes.size > 1 else divisor(1)
