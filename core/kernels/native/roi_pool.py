"""Pooling of regions of interest: maxima over bins, and means over bins with separate channels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...capabilities.sampling import PsroiPooling, RoiPooling
from ...types import Array, Shape
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources
from ..onednn.kernel import are_float32, present
from .library import library, loaded, pointer, threads
from .scratchpad import nbytes_of
from .structures import Regions

__all__ = ["psroi_pool", "roi_pool"]

_INT32 = np.dtype("int32")


class _OnRegions(Kernel):
    """Base: fixed sizes, and bins that change from run to run.

    Args:
        pooling: the operator.
        data: shape of the data.
        regions: the sizes.
    """

    def __init__(self, pooling: RoiPooling, data: Shape, regions: Regions) -> None:
        self.pooling, self.data, self.regions = pooling, data, regions

    def bins(self, rois: Array) -> tuple[Array, Array, Array]:
        """Return the image of each region, and the rows and columns of its bins, in the C
        functions' form."""
        images, rows, columns = self.pooling.bins(np, rois, self.data)
        return images.astype(_INT32), rows.astype(_INT32), columns.astype(_INT32)


class _Maxima(_OnRegions):
    """Maxima over bins; in training their positions are kept."""

    name = "native:roi_pool"

    def __init__(
        self, pooling: RoiPooling, data: Shape, regions: Regions, *, is_train: bool
    ) -> None:
        super().__init__(pooling, data, regions)
        scratch = loaded().roi_pool_scratch(regions) * regions.threads
        self.scratchpad_bytes = nbytes_of((scratch,))
        if is_train:
            shape = (regions.regions, regions.channels, regions.rows, regions.columns)
            self.workspace_bytes = nbytes_of(shape)  # positions are int32, as wide as float32

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that finds the maxima."""
        rois = present(arrays.inputs[1])
        data, out = pointer(arrays.inputs[0]), pointer(arrays.outputs[0])
        found = pointer(arrays.workspace) if self.workspace_bytes else None
        scratch = pointer(resources.scratchpad)

        def call() -> None:
            bins = self.bins(rois)
            loaded().roi_pool(self.regions, *map(pointer, bins), data, out, found, scratch)

        return call


class _MaximaBackward(_OnRegions):
    """Adds each gradient at the position of its maximum."""

    name = "native:roi_pool_backward"
    backward_inputs = (1,)
    backward_outputs = ()

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that sums the gradients."""
        rois = present(arrays.inputs[1])
        grad, data_grad = pointer(arrays.out_grads[0]), pointer(arrays.in_grads[0])
        found = pointer(arrays.workspace)

        def call() -> None:
            images = rois[:, 0].astype(_INT32)
            loaded().roi_pool_backward(self.regions, pointer(images), grad, found, data_grad)

        return call


class _Means(_OnRegions):
    """Means of bins."""

    name = "native:psroi_pool"

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes the means."""
        rois = present(arrays.inputs[1])
        data, out = pointer(arrays.inputs[0]), pointer(arrays.outputs[0])

        def call() -> None:
            bins = self.bins(rois)
            loaded().psroi_pool(self.regions, *map(pointer, bins), data, out)

        return call


class _MeansBackward(_OnRegions):
    """Spreads the gradient of each mean over its bin."""

    name = "native:psroi_pool_backward"
    backward_inputs = (1,)
    backward_outputs = ()

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that sums the gradients."""
        rois = present(arrays.inputs[1])
        grad, data_grad = pointer(arrays.out_grads[0]), pointer(arrays.in_grads[0])

        def call() -> None:
            bins = self.bins(rois)
            loaded().psroi_pool_backward(self.regions, *map(pointer, bins), grad, data_grad)

        return call


def roi_pool(request: KernelRequest[RoiPooling]) -> Kernel | None:
    """Prepare either pass of ``ROIPooling``."""
    prepared = _prepared(request, 1)
    if prepared is None:
        return None
    if not request.is_backward:
        return _Maxima(*prepared, is_train=request.is_train)
    forward = request.forward
    if not isinstance(forward, _Maxima) or not forward.workspace_bytes:
        return None
    return _MaximaBackward(*prepared)


def psroi_pool(request: KernelRequest[PsroiPooling]) -> Kernel | None:
    """Prepare either pass of ``PSROIPooling``."""
    operator = request.operator
    prepared = _prepared(request, operator.group_size or operator.pooled_size)
    if prepared is None:
        return None
    return (_MeansBackward if request.is_backward else _Means)(*prepared)


def _prepared(
    request: KernelRequest[RoiPooling], groups: int
) -> tuple[RoiPooling, Shape, Regions] | None:
    data, out = request.inputs[0], request.outputs[0]
    if library() is None or data is None or out is None or not are_float32(request):
        return None
    if 0 in data.shape or 0 in out.shape:
        return None
    (images, _, *sizes), (regions, channels, *bins) = data.shape, out.shape
    facts = Regions(images, channels, *sizes, regions, *bins, groups, threads())
    return request.operator, data.shape, facts
