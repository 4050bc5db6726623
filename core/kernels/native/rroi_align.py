"""Means of interpolated points in rotated regions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...capabilities.sampling import RroiAlign
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources
from ..onednn.kernel import are_float32, present
from .library import library, loaded, pointer, threads
from .scratchpad import nbytes_of
from .structures import RroiAlignment

__all__ = ["rotated_regions"]

_INT32 = np.dtype("int32")
_FLOAT64 = np.dtype("float64")
_MOST_PLACES = (2**31 - 1) // 16
"""Largest number of places in an image, because the C code numbers their 16 channels by 32 bits."""


class _RotatedMeans(Kernel):
    """Means of fixed sizes, in regions that change from run to run.

    Args:
        pooling: the operator.
        regions: the sizes.
    """

    name = "native:rroi_align"

    def __init__(self, pooling: RroiAlign, regions: RroiAlignment) -> None:
        self._pooling, self._regions = pooling, regions
        self.scratchpad_bytes = nbytes_of((loaded().rroi_align_scratch(regions),))

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes the means."""
        rois = present(arrays.inputs[1])
        data, out = pointer(arrays.inputs[0]), pointer(arrays.outputs[0])
        scratch = pointer(resources.scratchpad)

        def call() -> None:
            images, frames = self._pooling.frames(np, rois, self._regions.images)
            numbers = np.ascontiguousarray(images, _INT32)
            corners = np.ascontiguousarray(frames, _FLOAT64)
            operands = (pointer(numbers), pointer(corners), data, out, scratch)
            loaded().rroi_align(self._regions, *operands)

        return call


def rotated_regions(request: KernelRequest[RroiAlign]) -> Kernel | None:
    """Prepare ``RROIAlign``."""
    data, out = request.inputs[0], request.outputs[0]
    if library() is None or data is None or out is None or not are_float32(request):
        return None
    (images, channels, *sizes), (regions, _, *bins) = data.shape, out.shape
    if math.prod(sizes) > _MOST_PLACES:
        return None
    facts = RroiAlignment(images, channels, *sizes, regions, *bins, threads())
    return _RotatedMeans(request.operator, facts)
