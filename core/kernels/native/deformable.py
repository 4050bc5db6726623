"""Deformable convolution, with and without a mask: im2col with sampling, and matrix products."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...capabilities.sampling import DeformableConvolution
from ...types import Array, Shape
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources
from ..onednn.constants import Argument
from ..onednn.kernel import are_float32, present
from ..onednn.memory import MemoryDesc, strided
from ..onednn.primitive import Primitive, launch, scratchpad_bytes
from .library import library, loaded, pointer
from .sampling import call_of, near_bytes, sampling_of, scratch_bytes
from .scratchpad import Scratchpad, aligned, nbytes_of
from .structures import Sampling, SamplingWindow

__all__ = ["deformable_convolution"]


class _Image:
    """Conversion between one image and its im2col matrix.

    Args:
        sampling: the sizes.
        window: geometry of the windows.
        pad: provides the memory.
        is_backward: whether it is for the backward pass.
    """

    def __init__(
        self, sampling: Sampling, window: SamplingWindow, pad: Scratchpad, *, is_backward: bool
    ) -> None:
        self._sampling, self._window = sampling, window
        self._near, self._scratch, self.columns = (
            pad.take(size) for size in _sizes(sampling, is_backward=is_backward)[:3]
        )
        self.slopes = np.empty(0)
        if is_backward:
            self.slopes = pad.numbers((3, sampling.maps, sampling.points))

    def find(self, offset: Array) -> None:
        """Find the neighbors of all points."""
        near = pointer(self._near)
        loaded().sampling_find_window(self._sampling, self._window, pointer(offset), near)

    def read(self, data: Array, mask: Array | None) -> None:
        """Sample the image into the columns."""
        self._call(loaded().sampling_read, mask, data, self.columns, self._scratch)

    def spread(self, mask: Array | None, data_grad: Array) -> None:
        """Write the gradient of the image, given that of the columns."""
        self._call(loaded().sampling_spread, mask, self.columns, data_grad, self._scratch)

    def pull(self, data: Array, mask: Array | None) -> None:
        """Write the gradients of the points' rows and columns and of the mask, given that of the
        columns."""
        operands = (self.columns, data, *self.slopes, self._scratch)
        self._call(loaded().sampling_pull, mask, *operands)

    def _call(self, function: Callable[..., Any], *operands: Array | None) -> None:
        call_of(function, self._sampling, (self._near, *operands))()


def _sizes(sampling: Sampling, *, is_backward: bool) -> list[int]:
    """Return the sizes in bytes of the neighbors, the scratch memory, the columns and the
    slopes."""
    points = (sampling.maps, sampling.points)
    sizes = [
        near_bytes(sampling),
        scratch_bytes(sampling, is_backward=is_backward),
        nbytes_of((sampling.channels, *points)),
    ]
    return [*sizes, nbytes_of((3, *points))] if is_backward else sizes


class _Matrices(NamedTuple):
    """Descriptors of the groups' stacked matrices, optionally transposed."""

    groups: int
    filters: int
    inputs: int
    places: int

    def weight(self, *, flipped: bool = False) -> MemoryDesc:
        """(groups, filters, inputs)."""
        return _stack(self.groups, self.filters, self.inputs, flipped=flipped)

    def columns(self, *, flipped: bool = False) -> MemoryDesc:
        """(groups, inputs, places)."""
        return _stack(self.groups, self.inputs, self.places, flipped=flipped)

    def output(self) -> MemoryDesc:
        """(groups, filters, places)."""
        return _stack(self.groups, self.filters, self.places, flipped=False)


def _stack(count: int, rows: int, columns: int, *, flipped: bool) -> MemoryDesc:
    if flipped:
        return strided((count, columns, rows), (rows * columns, 1, columns))
    return strided((count, rows, columns), (rows * columns, columns, 1))


class _Deformable(Kernel):
    """Base of both passes.

    Args:
        layer: the operator.
        sampling: sizes of one image.
        output: height and width of the output.
    """

    is_backward: ClassVar[bool] = False

    def __init__(self, layer: DeformableConvolution, sampling: Sampling, output: Shape) -> None:
        self.layer, self.sampling = layer, sampling
        window = layer.window
        sizes = (window.kernel, window.stride, window.pad, window.dilate, output)
        self.window = SamplingWindow(*sizes, layer.has_mask)
        self.points, self.places = math.prod(window.kernel), math.prod(output)
        groups = layer.num_group
        inputs = sampling.maps * sampling.channels * self.points // groups
        self.matrices = _Matrices(groups, layer.num_filter // groups, inputs, self.places)
        needed = map(aligned, _sizes(sampling, is_backward=self.is_backward))
        self.scratchpad_bytes = sum(needed) + scratchpad_bytes(*self.primitives())

    def primitives(self) -> tuple[Primitive, ...]:
        """Return the primitives of the matrix products."""
        raise NotImplementedError(f"{type(self).__name__} has no products")

    def divide(self, resources: KernelResources) -> tuple[_Image, KernelResources]:
        """Return the converter of an image, and resources for the products."""
        # The scratchpad is taken in the order in which `__init__` has added its parts up.
        pad = Scratchpad(resources)
        image = _Image(self.sampling, self.window, pad, is_backward=self.is_backward)
        return image, dataclasses.replace(resources, scratchpad=pad.rest())


class _Forward(_Deformable):
    """The forward pass, image by image: im2col, then a product with the weights.

    So the memory has the columns of one image only, as many times its size as the window has
    elements.
    """

    name = "native:deformable_convolution"

    def primitives(self) -> tuple[Primitive, ...]:
        """Return the primitive of the product of weights and columns."""
        each = self.matrices
        return (Primitive.of("matmul", each.weight(), each.columns(), None, each.output()),)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that convolves."""
        data, offset, *others = map(present, arrays.inputs)
        out, has_mask = present(arrays.outputs[0]), self.layer.has_mask
        mask = others[0] if has_mask else None
        image, resources = self.divide(resources)
        (product,) = self.primitives()
        operands = {Argument.SRC: others[has_mask], Argument.WEIGHTS: image.columns}
        multiply = [launch(product, {**operands, Argument.DST: one}, resources) for one in out]

        def call() -> None:
            for i, run in enumerate(multiply):
                image.find(offset[i])
                image.read(data[i], _part(mask, i))
                run()
            if not self.layer.no_bias:
                np.add(out, others[-1][:, None, None], out=out)

        return call


class _Backward(_Deformable):
    """The backward pass, image by image."""

    name = "native:deformable_convolution_backward"
    is_backward = True
    backward_outputs = ()

    def __init__(self, layer: DeformableConvolution, sampling: Sampling, output: Shape) -> None:
        super().__init__(layer, sampling, output)
        self.backward_inputs = tuple(range(4 if layer.has_mask else 3))

    def primitives(self) -> tuple[Primitive, ...]:
        """Return the products for the gradients of the columns and of the weights, which
        accumulates."""
        each = self.matrices
        weight, columns = each.weight(flipped=True), each.columns(flipped=True)
        return (
            Primitive.of("matmul", weight, each.output(), None, each.columns()),
            Primitive.of(
                *("matmul", each.output(), columns, None, each.weight()), post=(("sum", 1.0),)
            ),
        )

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes the requested gradients."""
        grad, has_mask = present(arrays.out_grads[0]), self.layer.has_mask
        data, offset = present(arrays.inputs[0]), present(arrays.inputs[1])
        mask = present(arrays.inputs[2]) if has_mask else None
        weight = present(arrays.inputs[2 + has_mask])
        weight_grad, bias_grad = arrays.in_grads[2 + has_mask], arrays.in_grads[-1]
        wanted = arrays.in_grads[: 2 + has_mask]
        image, resources = self.divide(resources)
        to_columns, to_weight = self.primitives()

        def products(
            primitive: Primitive, left: Array | None, right: Array | None, target: Array
        ) -> list[Callable[[], Any]]:
            """Return one call for each image; a side of None is the image's gradient."""
            operands = {Argument.SRC: left, Argument.WEIGHTS: right, Argument.DST: target}
            return [
                launch(
                    primitive,
                    {key: one if value is None else value for key, value in operands.items()},
                    resources,
                )
                for one in grad
            ]

        change = products(to_columns, weight, None, image.columns)
        share = []
        if weight_grad is not None:
            share = products(to_weight, None, image.columns, weight_grad)

        def call() -> None:
            if weight_grad is not None:
                weight_grad.fill(0)  # the products of all images are added to it
            for i, run in enumerate(change):
                own_mask = _part(mask, i)
                image.find(offset[i])
                # The weights' gradient first: the gradient of the columns then overwrites them.
                if share:
                    image.read(data[i], own_mask)
                    share[i]()
                if any(target is not None for target in wanted):
                    run()
                    self._go_back(image, data[i], own_mask, [_part(one, i) for one in wanted])
            if not self.layer.no_bias and bias_grad is not None:
                np.sum(grad, axis=(0, 2, 3), out=bias_grad)

        return call

    def _go_back(
        self, image: _Image, data: Array, mask: Array | None, wanted: Sequence[Array | None]
    ) -> None:
        """Write the gradients of an image, its offsets and its mask, given that of the columns."""
        data_grad, offset_grad, *mask_grads = wanted
        if data_grad is not None:
            image.spread(mask, data_grad)
        if offset_grad is None and not any(one is not None for one in mask_grads):
            return
        image.pull(data, mask)
        down, across, value = image.slopes
        if offset_grad is not None:
            target = offset_grad.reshape(-1, self.points, 2, self.places)
            target[:, :, 0] = down.reshape(-1, self.points, self.places)
            target[:, :, 1] = across.reshape(-1, self.points, self.places)
        for mask_grad in mask_grads:
            if mask_grad is not None:
                np.copyto(mask_grad, value.reshape(mask_grad.shape))


def _part(array: Array | None, index: int) -> Array | None:
    return None if array is None else array[index]


def deformable_convolution(request: KernelRequest[DeformableConvolution]) -> Kernel | None:
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
    return (_Backward if request.is_backward else _Forward)(layer, sampling, output)
