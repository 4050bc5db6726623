"""Concatenation of the channels of images, with channels last."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from ctypes import c_long, c_void_p
from functools import partial
from typing import Any

from ...capabilities.arrays import Concatenation
from ...types import Shape
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources
from ..onednn.joining import concatenation as by_onednn
from ..onednn.memory import channels_last, layout_of
from .library import library, loaded, pointer, threads

__all__ = ["concatenation"]


class _Concatenation(Kernel):
    """Copies the channels of all images for one pixel after the other.

    Args:
        other: oneDNN's kernel for images in the same layout.
        shapes: of the images.
    """

    name = "native:concat"
    inplace = ()
    uses_scratch = False

    def __init__(self, other: Kernel, shapes: Sequence[Shape]) -> None:
        self.layouts = other.layouts
        self._pixels = shapes[0][0] * math.prod(shapes[0][2:])
        self._channels = [shape[1] for shape in shapes]

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that copies."""
        count = len(self._channels)
        return partial(
            loaded().concatenate,
            self._pixels,
            count,
            (c_long * count)(*self._channels),
            (c_void_p * count)(*(pointer(one) for one in arrays.inputs)),
            pointer(arrays.outputs[0]),
            threads(),
        )


def concatenation(request: KernelRequest[Concatenation]) -> Kernel | None:
    """Prepare the concatenation of images in layouts that oneDNN's kernel chooses, if these are
    channels last. It takes longer to copy few channels at a time."""
    if library() is None:
        return None
    other = by_onednn(request)
    shapes = [spec.shape for spec in (*request.inputs, *request.outputs) if spec is not None]
    if other is None or request.operator.dim % len(shapes[0]) != 1 or len(shapes[0]) < 3:
        return None
    lasts = tuple(layout_of(channels_last(shape)) for shape in shapes)
    if None in lasts or (*other.layouts.inputs, *other.layouts.outputs) != lasts:
        return None
    return _Concatenation(other, shapes[:-1])
