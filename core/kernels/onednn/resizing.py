"""Resizing of images, one axis at a time, by matrix products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...capabilities.layers import Resampling
from ...types import Array, Shape
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources
from .constants import Argument
from .kernel import are_float32, present
from .memory import plain, strided
from .pooling import adaptive_pooling, adaptive_pooling_backward
from .primitive import Primitive, launch, scratchpad_bytes

__all__ = ["averaging", "averaging_backward", "resizing", "resizing_backward"]

_FLOAT32 = np.dtype("float32")


class _Resizing(Kernel):
    """Multiplies rows by one matrix and columns by another.

    Forward: ``lines = data · columnsᵀ`` and ``output = rows · lines``. Backward: ``lines = rowsᵀ ·
    gradient`` and ``data gradient = lines · columns``.
    """

    inplace = ()
    backward_inputs = ()
    backward_outputs = ()
    uses_scratch = False

    def __init__(self, request: KernelRequest[Resampling], data: Shape, out: Shape) -> None:
        self.name = f"onednn:resize{'_backward' * request.is_backward}"
        self._is_backward = request.is_backward
        weights = request.operator.weights
        self._rows, self._columns = (
            np.ascontiguousarray(weights(np, out[axis], data[axis], _FLOAT32)) for axis in (2, 3)
        )
        images, (height, width), (tall, wide) = data[0] * data[1], data[2:], out[2:]
        lines = plain((images, height, wide))
        long_lines = plain((1, images * height, wide))
        long_data = plain((1, images * height, width))
        pictures = plain((images, tall, wide))
        self._lines = (images, height, wide)
        # The transposed matrices are described by strides. One matrix multiplies those of all
        # images, which oneDNN repeats where it is on the left; on the right, all rows of all images
        # are one long matrix.
        if self._is_backward:
            upright = strided((1, height, tall), (tall * height, 1, height))
            across = plain((1, wide, width))
            first, second = (upright, pictures, lines), (long_lines, across, long_data)
        else:
            lying = strided((1, width, wide), (width * wide, 1, width))
            first, second = (
                (long_data, lying, long_lines),
                (
                    plain((1, tall, height)),
                    lines,
                    pictures,
                ),
            )
        self._products = [
            Primitive.of("matmul", left, right, None, target)
            for left, right, target in (first, second)
        ]
        self.scratchpad_bytes = scratchpad_bytes(*self._products)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that resizes."""
        lines = resources.allocate(self._lines, _FLOAT32)
        if self._is_backward:
            given, target = present(arrays.out_grads[0]), present(arrays.in_grads[0])
            operands = (self._rows, given, lines), (lines, self._columns, target)
        else:
            given, target = present(arrays.inputs[0]), present(arrays.outputs[0])
            operands = (given, self._columns, lines), (self._rows, lines, target)
        first, second = (
            launch(primitive, self._tensors(*three), resources)
            for primitive, three in zip(self._products, operands, strict=True)
        )

        def call() -> Any:
            first()
            return second.call()

        return call

    def _tensors(self, left: Array, right: Array, target: Array) -> dict[Argument, Array]:
        return {Argument.SRC: left, Argument.WEIGHTS: right, Argument.DST: target}


def resizing(request: KernelRequest[Resampling]) -> Kernel | None:
    """Prepare the forward pass."""
    data, out = request.inputs[0], request.outputs[0]
    if not are_float32(request) or data is None or out is None:
        return None
    return _Resizing(request, data.shape, out.shape)


def resizing_backward(request: KernelRequest[Resampling]) -> Kernel | None:
    """Prepare the backward pass."""
    data, grad = request.inputs[0], request.out_grads[0]
    if not are_float32(request) or data is None or grad is None:
        return None
    return _Resizing(request, data.shape, grad.shape)


def averaging(request: KernelRequest[Resampling]) -> Kernel | None:
    """Prepare adaptive average pooling, as a plain pooling if its windows tile the data."""
    return adaptive_pooling(request) or resizing(request)


def averaging_backward(request: KernelRequest[Resampling]) -> Kernel | None:
    """Prepare the backward pass of ``averaging``."""
    return adaptive_pooling_backward(request) or resizing_backward(request)
