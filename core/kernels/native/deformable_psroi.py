"""Means of points in bins of regions of interest that are displaced by an input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...capabilities.sampling import DeformablePsroiPooling
from ...types import Array, Shape
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources
from ..onednn.kernel import are_float32, present
from .library import library, loaded, pointer, threads
from .structures import DeformablePsroi

__all__ = ["moved_regions"]


class _OnMovedRegions(Kernel):
    """Base: fixed sizes, and regions that change from run to run.

    Args:
        pooling: the operator.
        regions: the sizes.
    """

    def __init__(self, pooling: DeformablePsroiPooling, regions: DeformablePsroi) -> None:
        self._pooling, self.regions = pooling, regions

    def call(
        self, arrays: KernelArrays, calls: list[tuple[Callable[..., None], list[Array]]]
    ) -> Callable[[], Any]:
        """Return a closure that calls functions with the regions, followed by each function's
        arrays."""
        rois = present(arrays.inputs[1])
        trans = None if self._pooling.no_trans else pointer(arrays.inputs[2])
        bound = [(function, [*map(pointer, operands)]) for function, operands in calls]

        def call() -> None:
            images, *extents = self._pooling.extents(np, rois, self.regions.images)
            where = [images.astype("int32"), *map(np.ascontiguousarray, extents)]
            for function, operands in bound:
                function(self.regions, *map(pointer, where), trans, *operands)

        return call


class _Means(_OnMovedRegions):
    """The forward pass."""

    name = "native:deformable_psroi"

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes the means."""
        operands = [present(arrays.inputs[0]), present(arrays.outputs[0])]
        return self.call(arrays, [(loaded().deformable_psroi, operands)])


class _MeansBackward(_OnMovedRegions):
    """The gradients of the data and of the offsets."""

    name = "native:deformable_psroi_backward"
    backward_outputs = ()

    def __init__(self, pooling: DeformablePsroiPooling, regions: DeformablePsroi) -> None:
        super().__init__(pooling, regions)
        self.backward_inputs = (0, 1) if pooling.no_trans else (0, 1, 2)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes the requested gradients."""
        data, grad = present(arrays.inputs[0]), present(arrays.out_grads[0])
        data_grad, _, *trans_grads = arrays.in_grads
        calls = []
        if data_grad is not None:
            calls.append((loaded().deformable_psroi_spread, [grad, data_grad]))
        for trans_grad in trans_grads:
            if trans_grad is not None:
                calls.append((loaded().deformable_psroi_pull, [grad, data, trans_grad]))
        return self.call(arrays, calls)


def moved_regions(request: KernelRequest[DeformablePsroiPooling]) -> Kernel | None:
    """Prepare either pass of ``DeformablePSROIPooling``."""
    pooling, data, out = request.operator, request.inputs[0], request.outputs[0]
    if library() is None or data is None or out is None or not are_float32(request):
        return None
    shapes: list[Shape] = [spec.shape for spec in request.inputs if spec is not None]
    if any(0 in shape for shape in (*shapes, out.shape)):
        return None
    if pooling.sample_per_part > loaded().deformable_psroi_samples():
        return None
    (images, _, *sizes), (regions, channels, *_) = data.shape, out.shape
    classes = 1 if pooling.no_trans else shapes[2][1] // 2
    sides = (pooling.group_size, classes, pooling.parts, pooling.sample_per_part)
    facts = DeformablePsroi(
        *(images, channels, *sizes, regions, pooling.pooled_size, *sides, threads()),
        pooling.trans_std,
    )
    return (_MeansBackward if request.is_backward else _Means)(pooling, facts)
