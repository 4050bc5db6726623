"""Sums, means and extremes over all pixels of an image, in the layout of convolutions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...types import Array, Shape, shape_size
from ..kernel import Kernel, KernelArrays, KernelLayouts, KernelRequest, KernelResources, TensorSpec
from .channel_sums import channel_pixels, scaled, summing
from .constants import Algorithm, Argument, Propagation
from .kernel import PrimitiveKernel, in_grad, input_, out_grad, output, present
from .memory import MemoryDesc, channels_last, desc_of, layout_of
from .primitive import Primitive, launch, scratchpad_bytes

__all__ = ["is_over_places", "places_extreme", "places_spreading", "places_sum"]

_BYTES = np.dtype("uint8")
_FLOAT32 = np.dtype("float32")
_FEWEST_CHANNELS = 64
"""Of images whose extremes NumPy finds fastest with channels last; it takes one row of channels at
a time."""


class _Matrix(Kernel):
    """Reads or writes images of one pixel as a plain matrix (batch, channels).

    Args:
        request: the step.
        primitive: from images to single pixels, or in the backward pass from pixels to images.
    """

    name = "onednn:reduction"
    inplace = ()
    backward_inputs = ()
    backward_outputs = ()
    uses_scratch = False

    def __init__(self, request: KernelRequest[object], primitive: Primitive) -> None:
        self._primitive = primitive
        self.scratchpad_bytes = scratchpad_bytes(primitive)
        if request.is_backward:
            self.name = "onednn:reduction_backward"
            self.layouts = KernelLayouts(in_grads=(layout_of(primitive.desc(Argument.DST)),))
        else:
            self.layouts = KernelLayouts(inputs=(layout_of(primitive.desc(Argument.SRC)),))

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that reduces or spreads."""
        if arrays.in_grads:
            return self._spread(
                present(arrays.out_grads[0]), present(arrays.in_grads[0]), resources
            )
        return self._reduce(present(arrays.inputs[0]), present(arrays.outputs[0]), resources)

    def _reduce(
        self, images: Array, matrix: Array, resources: KernelResources
    ) -> Callable[[], Any]:
        pixels, found = self._pixels(Argument.DST, matrix, resources)
        tensors = {Argument.SRC: images, Argument.DST: pixels}
        reduce = launch(self._primitive, tensors, resources)
        if found is matrix:
            return reduce.call

        def call() -> None:
            reduce()
            np.copyto(matrix, found)

        return call

    def _spread(
        self, matrix: Array, images: Array, resources: KernelResources
    ) -> Callable[[], Any]:
        pixels, given = self._pixels(Argument.SRC, matrix, resources)
        tensors = {Argument.SRC: pixels, Argument.DST: images}
        spread = launch(self._primitive, tensors, resources)
        if given is matrix:
            return spread.call

        def call() -> Any:
            np.copyto(given, matrix)
            return spread.call()

        return call

    def _pixels(
        self, argument: Argument, matrix: Array, resources: KernelResources
    ) -> tuple[Array, Array]:
        """Return the memory of the primitive's pixels, and its view as a matrix. This is the given
        matrix if channels have no padding."""
        desc = self._primitive.desc(argument)
        if desc.nbytes == matrix.nbytes:
            return matrix, matrix
        pixels = resources.allocate((desc.nbytes,), _BYTES)
        pixels.fill(0)  # the padding, which oneDNN expects to be zeros
        return pixels, channel_pixels(pixels, desc)


class _Extreme(Kernel):
    """The minimum or maximum of each channel, with channels last, by NumPy: oneDNN's pooling loses
    NaN."""

    name = "onednn:reduction"
    inplace = ()
    uses_scratch = False

    def __init__(self, data: TensorSpec, choose: np.ufunc) -> None:
        self._shape, self._choose = data.shape, choose
        self.layouts = KernelLayouts(inputs=(layout_of(channels_last(data.shape)),))

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that reduces."""
        batch, channels = self._shape[:2]
        places = present(arrays.inputs[0]).view(_FLOAT32).reshape(batch, -1, channels)
        out = present(arrays.outputs[0]).reshape(batch, channels)
        return partial(self._choose.reduce, places, axis=1, out=out)


def places_extreme(data: TensorSpec, choose: np.ufunc) -> Kernel | None:
    """Prepare minima or maxima for data in one of oneDNN's layouts; None if there are so few
    channels that a plain tensor is reduced faster."""
    return _Extreme(data, choose) if data.shape[1] >= _FEWEST_CHANNELS else None


def places_sum(request: KernelRequest[object], *, is_mean: bool) -> Kernel:
    """Prepare the forward pass for data in one of oneDNN's layouts.

    Raises:
        KernelUnavailable: oneDNN cannot pool in this layout.
    """
    data, out = request.inputs[0], request.outputs[0]
    assert data is not None
    assert out is not None
    primitive = summing(desc_of(data), 1 if is_mean else shape_size(data.shape[2:]))
    if len(out.shape) < len(data.shape):
        return _Matrix(request, primitive)
    operands = {Argument.SRC: input_(0), Argument.DST: output()}
    return PrimitiveKernel("reduction", request, (primitive, operands))


def places_spreading(request: KernelRequest[object], *, is_mean: bool) -> Kernel:
    """Prepare the backward pass for data in one of oneDNN's layouts.

    Raises:
        KernelUnavailable: oneDNN cannot enlarge images in this layout.
    """
    data, grad = request.inputs[0], request.out_grads[0]
    assert data is not None
    assert grad is not None
    primitive = _spreading(desc_of(data), 1 / shape_size(data.shape[2:]) if is_mean else 1)
    if len(grad.shape) < len(data.shape):
        return _Matrix(request, primitive)
    operands = {Argument.SRC: out_grad(), Argument.DST: in_grad()}
    return PrimitiveKernel("reduction_backward", request, (primitive, operands))


def is_over_places(data: TensorSpec, axes: Shape) -> bool:
    """Return whether the axes are all spatial axes of images in one of oneDNN's layouts."""
    is_image = data.layout is not None and desc_of(data).dims == data.shape
    return is_image and bool(axes) and axes == tuple(range(2, len(data.shape)))


def _spreading(desc: MemoryDesc, factor: float) -> Primitive:
    """Return the primitive that enlarges images of one pixel."""
    return Primitive.of(
        "resampling_forward",
        Propagation.FORWARD_INFERENCE,
        Algorithm.RESAMPLING_NEAREST,
        None,
        summing(desc, 1).desc(Argument.DST),
        desc,
        post=scaled(factor),
    )
