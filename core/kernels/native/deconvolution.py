"""Deconvolutions with few channels or long strides, phase by phase.

Results that are a stride apart, a *phase*, are a convolution of the data with those of the weights
that are a stride apart. One convolution computes all phases as channels, and a second pass
interleaves their pixels (W. Shi et al.: Is the deconvolution layer the same as a convolutional
layer?, 2016, arXiv:1609.07009). oneDNN's primitives pad a few channels to whole registers, and
compute a few pixels at a time where strides are long.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from ctypes import byref
from functools import partial
from typing import Any

import numpy as np

from ...capabilities.layers import Deconvolution
from ...types import Array, Shape
from ..kernel import Kernel, KernelArrays, KernelLayouts, KernelRequest, KernelResources
from ..onednn.constants import Algorithm, Argument, Propagation
from ..onednn.convolution import has_channels_first
from ..onednn.kernel import are_float32, present
from ..onednn.memory import any_layout, channels_last, layout_of, plain
from ..onednn.primitive import Primitive, launch, scratchpad_bytes
from ..onednn.reorder import make_reorder
from .library import library, loaded, pointer, threads
from .structures import PixelShuffle

__all__ = ["deconvolution"]

_AXES_OF_IMAGES = 4
_LANES = 16
_ALIGNMENT = 64
_LEAST_SAVING = 1.25
"""Smallest ratio of multiplications, oneDNN's to those by phase. Lanes without a channel count."""
_LONG_STRIDE, _SAVING_OF_LONG = 8, 0.8
"""Stride from which oneDNN computes a few pixels at a time, and the smallest ratio there."""


@dataclasses.dataclass(frozen=True)
class _Phases:
    """The phases of a deconvolution.

    Attributes:
        data, out: shapes, ``(images, channels, height, width)``.
        kernel, stride, pad: of the deconvolution.
    """

    data: Shape
    out: Shape
    kernel: Shape
    stride: Shape
    pad: Shape

    @property
    def taps(self) -> Shape:
        """Window of the convolution."""
        return tuple(-(-side // step) for side, step in zip(self.kernel, self.stride, strict=True))

    @property
    def weight(self) -> Shape:
        """Shape of the convolution's weight."""
        return (self.out[1] * math.prod(self.stride), self.data[1], *self.taps)

    @property
    def pixels(self) -> Shape:
        """Shape of the phases, as channels."""
        sizes = zip(self.data[2:], self.taps, strict=True)
        return (self.data[0], self.weight[0], *(size + taps - 1 for size, taps in sizes))

    @property
    def are_whole(self) -> bool:
        """Whether every result belongs to a phase."""
        ends = zip(self.out[2:], self.pad, self.pixels[2:], self.stride, strict=True)
        return all(size + pad <= count * step for size, pad, count, step in ends)

    @property
    def saving(self) -> float:
        """The multiplications of oneDNN's primitive, as a multiple of those by phase."""
        direct = _in_lanes(self.out[1]) * math.prod((*self.kernel, *self.data[2:]))
        return direct / (_in_lanes(self.weight[0]) * math.prod((*self.taps, *self.pixels[2:])))

    def primitive(self) -> Primitive:
        """Return the convolution."""
        around = tuple(taps - 1 for taps in self.taps)
        return Primitive.of(
            "convolution_forward",
            Propagation.FORWARD_INFERENCE,
            Algorithm.CONVOLUTION_DIRECT,
            channels_last(self.data),
            any_layout(self.weight),
            None,
            channels_last(self.pixels),
            *((1, 1), (0, 0), around, around),
        )

    def rearranged(self, weight: Array) -> Array:
        """Return the deconvolution's weight as the convolution's."""
        # The windows are turned around: a deconvolution spreads each element over its window, so
        # that a result gathers from the other side. Zeros fill up windows that are no multiple of
        # the stride.
        parts = list(zip(self.taps, self.stride, strict=True))
        behind = [taps * step - side for (taps, step), side in zip(parts, self.kernel, strict=True)]
        padded = np.pad(weight, [(0, 0), (0, 0), *((0, count) for count in behind)])
        (rows, stride_y), (columns, stride_x) = parts
        split = padded.reshape(*weight.shape[:2], rows, stride_y, columns, stride_x)
        turned = split[:, :, ::-1, :, ::-1, :].transpose(1, 3, 5, 0, 2, 4)
        return np.ascontiguousarray(turned.reshape(self.weight))

    def as_c(self) -> PixelShuffle:
        """Return how to pixel_shuffle the phases, as a C structure."""
        images, channels, height, width = self.out
        rows, columns = self.pixels[2:]
        return PixelShuffle(
            images, channels, height, width, *self.stride, *self.pad, rows, columns, threads()
        )


class _Deconvolution(Kernel):
    """Convolves and interleaves; the weight is constant."""

    name = "native:deconvolution"
    inplace = ()
    uses_scratch = False

    def __init__(self, request: KernelRequest[Deconvolution], phases: _Phases) -> None:
        self._phases, self._primitive = phases, phases.primitive()
        own = scratchpad_bytes(self._primitive)
        self._begin = -(-own // _ALIGNMENT) * _ALIGNMENT
        self.scratchpad_bytes = self._begin + self._primitive.desc(Argument.DST).nbytes
        data = layout_of(self._primitive.desc(Argument.SRC))
        self.layouts = KernelLayouts(inputs=(data, *(None for _ in request.inputs[1:])))

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes with rearranged weights, which the plan caches."""
        desc, weight = self._primitive.desc(Argument.WEIGHTS), present(arrays.inputs[1])
        make = partial(self._rearrange, weight, resources)
        kept = resources.prepack((desc, self._phases), (1,), desc.nbytes, make)
        pixels = present(resources.scratchpad)[self._begin : self.scratchpad_bytes]
        data = present(arrays.inputs[0])
        tensors = {Argument.SRC: data, Argument.WEIGHTS: kept, Argument.DST: pixels}
        convolve = launch(self._primitive, tensors, resources).call
        bias = next(iter(arrays.inputs[2:]), None)
        interleaving = self._phases.as_c()
        pixel_shuffle = partial(
            loaded().pixel_shuffle,
            byref(interleaving),
            pointer(pixels),
            None if bias is None else pointer(bias),
            pointer(arrays.outputs[0]),
        )

        def call() -> Any:
            return convolve() or pixel_shuffle()

        return call

    def _rearrange(self, weight: Array, resources: KernelResources, kept: Array) -> None:
        reorder = make_reorder(plain(self._phases.weight), self._primitive.desc(Argument.WEIGHTS))
        tensors = {Argument.SRC: self._phases.rearranged(weight), Argument.DST: kept}
        launch(reorder, tensors, resources)()


def deconvolution(request: KernelRequest[Deconvolution]) -> Kernel | None:
    """Prepare the forward pass in inference."""
    operator, out = request.operator, request.outputs[0]
    if library() is None or out is None or not are_float32(request):
        return None
    if request.is_train or not request.is_constant[1] or not has_channels_first(operator):
        return None
    data, weight = request.inputs[:2]
    assert data is not None
    assert weight is not None
    if len(data.shape) != _AXES_OF_IMAGES or operator.num_group > 1:
        return None
    window = operator.window_for(data.shape[2:])
    if window.dilate != (1, 1):
        return None
    phases = _Phases(data.shape, out.shape, weight.shape[2:], window.stride, window.pad)
    least = _SAVING_OF_LONG if min(window.stride) >= _LONG_STRIDE else _LEAST_SAVING
    if phases.saving < least or not phases.are_whole:
        return None
    return _Deconvolution(request, phases)


def _in_lanes(channels: int) -> int:
    return -(-channels // _LANES) * _LANES
