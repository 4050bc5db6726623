"""Transposes and channel shuffles, each a single copy between layouts."""

from __future__ import annotations

from ...capabilities.arrays import Transpose
from ...capabilities.fused import Shuffle
from ...types import shape_size
from ..kernel import Kernel, KernelRequest, TensorSpec
from .copies import Copies, End
from .kernel import Operand, are_float32, in_grad, input_, out_grad, output
from .memory import channels_last, desc_of, permuted, plain, strided

__all__ = ["shuffling", "shuffling_backward", "transposition", "transposition_backward"]


def transposition(request: KernelRequest[Transpose]) -> Kernel | None:
    """Prepare a transpose, from any layout to C order."""
    data, out = request.inputs[0], request.outputs[0]
    if not are_float32(request) or data is None or out is None:
        return None
    axes = request.operator.permutation(len(data.shape))
    whole = desc_of(data)
    source = End(input_(0), whole, permuted(whole, axes))
    return Copies("transpose", request, [(source, End(output(), plain(out.shape)))])


def transposition_backward(request: KernelRequest[Transpose]) -> Kernel | None:
    """Prepare its gradient, from any layout; for images that had a layout, the result is channels
    last."""
    data, grad = request.inputs[0], request.out_grads[0]
    if not are_float32(request) or data is None or grad is None:
        return None
    axes = request.operator.permutation(len(data.shape))
    was_image = data.layout is not None and len(data.shape) > 2
    whole = channels_last(data.shape) if was_image else plain(data.shape)
    target = End(in_grad(), whole, permuted(whole, axes))
    return Copies("transpose_backward", request, [(End(out_grad(), desc_of(grad)), target)])


def shuffling(request: KernelRequest[Shuffle]) -> Kernel | None:
    """Prepare a channel shuffle, in C order or channels last."""
    shuffle = request.operator
    data, groups = request.inputs[0], shuffle.groups
    if not are_float32(request) or data is None:
        return None
    return _shuffle("shuffle", request, data, groups, (input_(0), output()))


def shuffling_backward(request: KernelRequest[Shuffle]) -> Kernel | None:
    """Prepare the gradient of a channel shuffle."""
    shuffle = request.operator
    grad, groups = request.out_grads[0], shuffle.groups
    if not are_float32(request) or grad is None:
        return None
    ends = out_grad(), in_grad()
    return _shuffle("shuffle_backward", request, grad, grad.shape[1] // groups, ends)


def _shuffle(
    name: str,
    request: KernelRequest[object],
    data: TensorSpec,
    rows: int,
    ends: tuple[Operand, Operand],
) -> Kernel:
    """Return the kernel that transposes the channels of each pixel, viewed as a matrix."""
    batch, channels, *space = data.shape
    columns, pixels = channels // rows, shape_size(tuple(space))
    if data.layout is None:
        whole = plain(data.shape)
        dims = (batch, rows, columns, pixels)
        target = strided(dims, (channels * pixels, pixels, rows * pixels, 1))
    else:
        whole = channels_last(data.shape)
        dims = (batch, pixels, rows, columns)
        target = strided(dims, (channels * pixels, channels, 1, rows))
    copy = End(ends[0], whole, plain(dims)), End(ends[1], whole, target)
    return Copies(name, request, [copy])
