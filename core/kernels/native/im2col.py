"""``im2col`` and ``col2im``: windows of images as columns, and images as sums of windows."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from ...capabilities.layers import Patches
from ...types import Shape
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources, TensorSpec
from ..onednn.kernel import are_float32
from .library import library, loaded, pointer, threads
from .structures import Windows

__all__ = ["columns_to_image", "image_to_columns"]

_AXES = 2


class _Patches(Kernel):
    """Copies windows to columns, or adds up columns.

    Args:
        windows: the sizes.
        adds: whether columns are added up.
        is_backward: whether this is for the gradient of an input.
    """

    inplace = ()
    uses_scratch = False
    backward_inputs = ()
    backward_outputs = ()

    def __init__(self, windows: Windows, *, adds: bool, is_backward: bool) -> None:
        self._windows, self._adds, self._is_backward = windows, adds, is_backward
        self.name = f"native:{'col2im' if adds else 'im2col'}"

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that copies or adds."""
        if self._is_backward:
            operands = (arrays.out_grads[0], arrays.in_grads[0])
        else:
            operands = (arrays.inputs[0], arrays.outputs[0])
        call = loaded().col2im if self._adds else loaded().im2col
        return partial(call, self._windows, *map(pointer, operands))


def image_to_columns(request: KernelRequest[Patches]) -> Kernel | None:
    """Prepare either pass of ``im2col``."""
    return _prepared(request, request.inputs[0], adds=request.is_backward)


def columns_to_image(request: KernelRequest[Patches]) -> Kernel | None:
    """Prepare either pass of ``col2im``."""
    return _prepared(request, request.outputs[0], adds=not request.is_backward)


def _prepared(
    request: KernelRequest[Patches], images: TensorSpec | None, *, adds: bool
) -> Kernel | None:
    windows = None if images is None else _windows(request, images.shape)
    if windows is None:
        return None
    return _Patches(windows, adds=adds, is_backward=request.is_backward)


def _windows(request: KernelRequest[Patches], images: Shape) -> Windows | None:
    """Return the windows of images; None where there is no kernel."""
    count, channels, *spatial = images
    if library() is None or len(spatial) != _AXES or not are_float32(request):
        return None
    window = request.operator.window
    pairs = (window.kernel, window.stride, window.pad, window.dilate)
    rows, columns = (
        (size + 2 * pad - span) // stride + 1
        for size, pad, span, stride in zip(
            spatial, window.pad, window.spans, window.stride, strict=True
        )
    )
    return Windows(math.prod((count, channels)), *spatial, *pairs, rows, columns, threads())
