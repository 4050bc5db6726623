"""Bilinear sampling of images at the points of a grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...capabilities.sampling import SpatialTransformer
from ...types import Array, Shape
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources
from ..onednn.kernel import are_float32, present
from .library import in_turn, library, loaded, pointer, threads
from .scratchpad import Scratchpad, aligned, nbytes_of
from .structures import Sampling

__all__ = [
    "bilinear_sampler",
    "call_of",
    "near_bytes",
    "sampling_of",
    "scratch_bytes",
    "spatial_transformer",
]

_FLOAT32 = np.dtype("float32")
_MOST_PLACES = 2**31 - 1
"""Largest number of elements in a map, because the C code uses 32-bit indices."""


def sampling_of(data: Shape, maps: int, points: int) -> Sampling | None:
    """Return the sizes of maps (..., height, width); None if they are empty or too large."""
    size = int(np.prod(data))
    height, width = data[-2:]
    if not size or not points or height * width > _MOST_PLACES:
        return None
    channels = size // (maps * height * width)
    return Sampling(maps, channels, height, width, points, threads())


def near_bytes(sampling: Sampling) -> int:
    """Return the size in bytes of the neighbors of all points."""
    return int(loaded().sampling_near_bytes(sampling))


def scratch_bytes(sampling: Sampling, *, is_backward: bool) -> int:
    """Return the bytes of scratch memory of a pass for maps in blocks of channels."""
    own = loaded().sampling_scratch(sampling) * sampling.threads
    pull = loaded().sampling_pull_scratch(sampling) if is_backward else 0
    return int(max(own, pull)) * _FLOAT32.itemsize


# -- grids ----------------------------------------------------------------------------------------


class _OnGrid(Kernel):
    """Samples images at the points of a grid, which is given or made from transformation matrices.

    Args:
        sampling: the sizes.
        transformer: makes the grid; None if the grid is an input.
    """

    name = "native:bilinear_sampler"

    def __init__(self, sampling: Sampling, transformer: SpatialTransformer | None) -> None:
        self._sampling, self._transformer = sampling, transformer
        sizes = (near_bytes(sampling), scratch_bytes(sampling, is_backward=False))
        self.scratchpad_bytes = sum(map(aligned, sizes))

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that finds the neighbors of the points and interpolates."""
        sampling, pad = self._sampling, Scratchpad(resources)
        near = pad.take(near_bytes(sampling))
        scratch = pad.take(scratch_bytes(sampling, is_backward=False))
        data, out = arrays.inputs[0], arrays.outputs[0]
        read = call_of(loaded().sampling_read, sampling, (near, None, data, out, scratch))
        return in_turn([_find(sampling, self._transformer, arrays, near), read])


class _OnGridBackward(Kernel):
    """The gradients of the images and of the grid or the matrices."""

    name = "native:bilinear_sampler_backward"
    backward_inputs = (0, 1)
    backward_outputs = ()

    def __init__(self, sampling: Sampling, transformer: SpatialTransformer | None) -> None:
        self._sampling, self._transformer = sampling, transformer
        sizes = (
            near_bytes(sampling),
            scratch_bytes(sampling, is_backward=True),
            nbytes_of((2, sampling.maps, sampling.points)),
        )
        self.scratchpad_bytes = sum(map(aligned, sizes))

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes the requested gradients."""
        sampling, pad = self._sampling, Scratchpad(resources)
        near = pad.take(near_bytes(sampling))
        scratch = pad.take(scratch_bytes(sampling, is_backward=True))
        grad, (data_grad, where_grad) = arrays.out_grads[0], arrays.in_grads
        calls = [_find(sampling, self._transformer, arrays, near)]
        if data_grad is not None:
            operands = (near, None, grad, data_grad, scratch)
            calls.append(call_of(loaded().sampling_spread, sampling, operands))
        if where_grad is not None:
            slopes = pad.numbers((2, sampling.maps, sampling.points))
            operands = (near, None, grad, arrays.inputs[0], *slopes, None, scratch)
            calls.append(call_of(loaded().sampling_pull, sampling, operands))
            calls.append(partial(self._move, slopes, where_grad))
        return in_turn(calls)

    def _move(self, slopes: Array, where_grad: Array) -> None:
        """Write the gradient of the grid or the matrices."""
        sampling, transformer = self._sampling, self._transformer
        down, across = slopes
        # Grids reach from -1 to 1, so that a unit is half of the image.
        across *= _FLOAT32.type((sampling.width - 1) / 2)
        down *= _FLOAT32.type((sampling.height - 1) / 2)
        if transformer is None:
            target = where_grad.reshape(sampling.maps, 2, sampling.points)
            target[:, 0], target[:, 1] = across, down
        else:
            grid_gradient = np.stack((across, down), axis=1)
            where_grad[...] = transformer.loc_gradient(np, grid_gradient)


def call_of(
    function: Callable[..., Any], sampling: Sampling, operands: Sequence[Array | None]
) -> Callable[[], Any]:
    """Return a call of a C function with some arrays; None passes a null pointer."""
    addresses = (None if one is None else pointer(one) for one in operands)
    return partial(function, sampling, *addresses)


def _find(
    sampling: Sampling, transformer: SpatialTransformer | None, arrays: KernelArrays, near: Array
) -> Callable[[], Any]:
    """Return the call that finds the neighbors of each point of a grid."""
    where, find = present(arrays.inputs[1]), loaded().sampling_find_grid
    if transformer is None:
        return partial(find, sampling, pointer(where), pointer(near))

    def call() -> None:
        grid = np.ascontiguousarray(transformer.grid(np, where))
        find(sampling, pointer(grid), pointer(near))

    return call


def _on_grid(
    request: KernelRequest[object], transformer: SpatialTransformer | None
) -> Kernel | None:
    data, out = request.inputs[0], request.outputs[0]
    if library() is None or data is None or out is None or not are_float32(request):
        return None
    sampling = sampling_of(data.shape, data.shape[0], out.shape[2] * out.shape[3])
    if sampling is None:
        return None
    return (_OnGridBackward if request.is_backward else _OnGrid)(sampling, transformer)


def bilinear_sampler(request: KernelRequest[object]) -> Kernel | None:
    """Prepare either pass of ``BilinearSampler``."""
    return _on_grid(request, None)


def spatial_transformer(request: KernelRequest[SpatialTransformer]) -> Kernel | None:
    """Prepare either pass of ``SpatialTransformer``."""
    return _on_grid(request, request.operator)
