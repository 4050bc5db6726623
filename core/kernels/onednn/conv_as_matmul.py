"""Convolutions of one channel whose windows are as wide as the data, as for sentences.

Such data has one word vector per row (Kim, Convolutional Neural Networks for Sentence
Classification, 2014). The same memory, without a copy, is a sequence of word vectors in
channels-last layout.
"""

from __future__ import annotations

from ...capabilities.layers import Convolution
from ...types import Shape
from ..kernel import Kernel, KernelLayouts, KernelRequest
from .constants import Algorithm, Argument
from .kernel import PrimitiveKernel, are_float32, forward_propagation, input_, output
from .memory import any_layout, channels_last, layout_of, permuted, plain, reshaped
from .primitive import PostOperation, Primitive

__all__ = ["full_width_convolution"]

PostOperations = tuple[PostOperation, ...]


def full_width_convolution(
    request: KernelRequest[object], layer: Convolution, post: PostOperations = ()
) -> Kernel | None:
    """Prepare the forward pass with an activation, if the layer has this form."""
    data, out = request.inputs[0], request.outputs[0]
    if not are_float32(request) or data is None or out is None or data.layout is not None:
        return None
    if len(data.shape) != 4 or data.shape[1] != 1 or layer.kernel[1] != data.shape[3]:
        return None
    window = layer.window
    is_simple = window.stride == (1, 1) and window.dilate == (1, 1) and window.pad == (0, 0)
    if not is_simple or layer.num_group != 1 or data.shape[3] == 1:
        return None
    return _of_sequences(request, layer, data.shape, out.shape, post)


def _of_sequences(
    request: KernelRequest[object],
    layer: Convolution,
    data: Shape,
    out: Shape,
    post: PostOperations,
) -> Kernel:
    """Return the kernel that views rows as steps of a sequence and columns as its channels."""
    batch, _, length, width = data
    _, filters, places, _ = out
    none = (0,)
    primitive = Primitive.of(
        "convolution_forward",
        forward_propagation(request),
        Algorithm.CONVOLUTION_DIRECT,
        channels_last((batch, width, length)),
        any_layout((filters, width, layer.kernel[0])),
        None if layer.no_bias else plain((filters,)),
        channels_last((batch, filters, places)),
        *((1,), none, none, none),
        post=post,
    )
    operands = {Argument.SRC: input_(0), Argument.WEIGHTS: input_(1), Argument.DST: output()}
    if not layer.no_bias:
        operands[Argument.BIAS] = input_(2)
    kernel = PrimitiveKernel("convolution_full_width", request, (primitive, operands))
    # The layout of the weights with the graph's axes: width is the last one, and channels are one.
    weights = permuted(primitive.desc(Argument.WEIGHTS), (0, 2, 1))
    shape = (filters, 1, layer.kernel[0], width)
    kernel.layouts = KernelLayouts(
        inputs=(None, layout_of(reshaped(weights, shape)), *(None for _ in request.inputs[2:])),
        outputs=(layout_of(channels_last(out)),),
    )
    return kernel
