"""Deformable convolution, with and without a mask: columns read at moved points, and products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ...types import Array, Shape
from ..kernels import Kernel, KernelArrays, KernelRequest, KernelResources
from ..onednn.kernel import are_float32, present
from .library import Sampling, SamplingWindow, library, loaded
from .sampling import call_of, near_bytes, sampling_of, scratch_bytes
from .scratchpad import Scratchpad, aligned, nbytes_of

__all__ = ["deformable_convolution"]


class _Window(Protocol):
    kernel: Shape
    stride: Shape
    pad: Shape
    dilate: Shape


class _Layer(Protocol):
    """``DeformableConvolution`` or ``ModulatedDeformableConvolution``."""

    has_mask: bool
    no_bias: bool
    num_group: int
    num_deformable_group: int

    @property
    def window(self) -> _Window:
        """The window, defaults filled in."""


class _Image:
    """What is done with one image, whose points are found first.

    Args:
        kernel: the prepared kernel.
        resources: for its scratchpad.
        is_backward: whether there are gradients to compute.
    """

    def __init__(
        self, kernel: _Deformable, resources: KernelResources, *, is_backward: bool
    ) -> None:
        sampling, pad = kernel.sampling, Scratchpad(resources)
        self._sampling, self._window = sampling, kernel.window
        self._near = pad.take(near_bytes(sampling))
        self._scratch = pad.take(scratch_bytes(sampling, is_backward=is_backward))
        points = (sampling.maps, sampling.points)
        self.columns = pad.numbers((sampling.maps * sampling.channels, sampling.points))
        self.slopes = pad.numbers((3, *points)) if is_backward else np.empty(0)

    def find(self, offset: Array) -> None:
        """Find the elements around all points."""
        loaded().sampling_find_window(
            self._sampling, self._window, offset.ctypes.data, self._near.ctypes.data
        )

    def read(self, data: Array, mask: Array | None) -> None:
        """Fill the columns."""
        self._call(loaded().sampling_read, mask, data, self.columns, self._scratch)

    def spread(self, mask: Array | None, data_grad: Array) -> None:
        """Write the image's gradient, given the columns'."""
        self._call(loaded().sampling_spread, mask, self.columns, data_grad, self._scratch)

    def pull(self, data: Array, mask: Array | None) -> None:
        """Write the slopes: gradients by rows, columns and mask, given the columns'."""
        operands = (self.columns, data, *self.slopes, self._scratch)
        self._call(loaded().sampling_pull, mask, *operands)

    def _call(self, function: Callable[..., Any], *operands: Array | None) -> None:
        call_of(function, self._sampling, (self._near, *operands))()


class _Deformable(Kernel):
    """The forward pass.

    Args:
        layer: the operator.
        sampling: sizes of one image.
        output: height and width of the output.
    """

    name = "native:deformable_convolution"

    def __init__(
        self, layer: _Layer, sampling: Sampling, output: Shape, *, is_backward: bool = False
    ) -> None:
        self.layer, self.sampling = layer, sampling
        window = layer.window
        sizes = (window.kernel, window.stride, window.pad, window.dilate, output)
        self.window = SamplingWindow(*sizes, layer.has_mask)
        points = (sampling.maps, sampling.points)
        needed = [
            near_bytes(sampling),
            scratch_bytes(sampling, is_backward=is_backward),
            nbytes_of((sampling.channels, *points)),
            nbytes_of((3, *points)),
        ]
        self.scratchpad_bytes = sum(map(aligned, needed if is_backward else needed[:3]))

    def matrix(self, weight: Array) -> Array:
        """Return weights by groups: (groups, filters, columns)."""
        return weight.reshape(self.layer.num_group, weight.shape[0] // self.layer.num_group, -1)

    def by_group(self, array: Array) -> Array:
        """Return columns, or an image of the output, as matrices of each group."""
        places = math.prod(self.window.output)
        return array.reshape(self.layer.num_group, -1, places)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that convolves image by image."""
        data, offset, *others = map(present, arrays.inputs)
        out, has_mask = present(arrays.outputs[0]), self.layer.has_mask
        mask = others[0] if has_mask else None
        weight = self.matrix(others[has_mask])
        image = _Image(self, resources, is_backward=False)
        columns = self.by_group(image.columns)

        def call() -> None:
            for i in range(len(out)):
                image.find(offset[i])
                image.read(data[i], None if mask is None else mask[i])
                np.matmul(weight, columns, out=self.by_group(out[i]))
            if not self.layer.no_bias:
                np.add(out, others[-1][:, None, None], out=out)

        return call


class _DeformableBackward(_Deformable):
    """The gradients."""

    name = "native:deformable_convolution_backward"
    backward_outputs = ()

    def __init__(self, layer: _Layer, sampling: Sampling, output: Shape) -> None:
        super().__init__(layer, sampling, output, is_backward=True)
        self.backward_inputs = tuple(range(4 if layer.has_mask else 3))

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that goes back image by image."""
        grad, has_mask = present(arrays.out_grads[0]), self.layer.has_mask
        data, offset = present(arrays.inputs[0]), present(arrays.inputs[1])
        mask = present(arrays.inputs[2]) if has_mask else None
        weight = self.matrix(present(arrays.inputs[2 + has_mask]))
        weight_grad, bias_grad = arrays.in_grads[2 + has_mask], arrays.in_grads[-1]
        wanted = arrays.in_grads[: 2 + has_mask]
        image = _Image(self, resources, is_backward=True)
        columns = self.by_group(image.columns)

        def call() -> None:
            if weight_grad is not None:
                weight_grad.fill(0)
            for i in range(len(grad)):
                own_grad, own_mask = self.by_group(grad[i]), None if mask is None else mask[i]
                image.find(offset[i])
                if weight_grad is not None:
                    image.read(data[i], own_mask)
                    change = np.matmul(own_grad, columns.transpose(0, 2, 1))
                    np.add(weight_grad, change.reshape(weight_grad.shape), out=weight_grad)
                if any(target is not None for target in wanted):
                    np.matmul(weight.transpose(0, 2, 1), own_grad, out=columns)
                    self._go_back(image, data[i], own_mask, [_part(one, i) for one in wanted])
            if not self.layer.no_bias and bias_grad is not None:
                np.sum(grad, axis=(0, 2, 3), out=bias_grad)

        return call

    def _go_back(
        self, image: _Image, data: Array, mask: Array | None, wanted: Sequence[Array | None]
    ) -> None:
        """Write the gradients of an image, its offsets and its mask, given the columns'."""
        data_grad, offset_grad, *mask_grads = wanted
        if data_grad is not None:
            image.spread(mask, data_grad)
        if offset_grad is None and not any(one is not None for one in mask_grads):
            return
        image.pull(data, mask)
        down, across, value = image.slopes
        if offset_grad is not None:
            size, places = math.prod(self.window.kernel), math.prod(self.window.output)
            target = offset_grad.reshape(-1, size, 2, places)
            target[:, :, 0] = down.reshape(-1, size, places)
            target[:, :, 1] = across.reshape(-1, size, places)
        for mask_grad in mask_grads:
            if mask_grad is not None:
                np.copyto(mask_grad, value.reshape(mask_grad.shape))


def _part(array: Array | None, index: int) -> Array | None:
    return None if array is None else array[index]


def deformable_convolution(request: KernelRequest) -> Kernel | None:
    """Prepare either pass of ``DeformableConvolution`` or ``ModulatedDeformableConvolution``."""
    layer, data, out = request.operator, request.inputs[0], request.outputs[0]
    if library() is None or data is None or out is None or not are_float32(request):
        return None
    output = out.shape[2:]
    points = math.prod(layer.window.kernel) * math.prod(output)
    if not out.shape[0]:
        return None
    sampling = sampling_of(data.shape[1:], layer.num_deformable_group, points)
    if sampling is None:
        return None
    return (_DeformableBackward if request.is_backward else _Deformable)(layer, sampling, output)
