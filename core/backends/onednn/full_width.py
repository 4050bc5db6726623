"""Convolutions of one channel whose windows are as wide as the data: of sentences, row by row.

Word vectors one below the other are such data (Kim, Convolutional Neural Networks for Sentence
Classification, 2014). Each row of the window is a product of matrices, without a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from core.backends.kernels import (
    Kernel,
    KernelArrays,
    KernelLayouts,
    KernelRequest,
    KernelResources,
)
from core.backends.onednn.constants import Argument
from core.backends.onednn.kernel import are_float32, present
from core.backends.onednn.memory import channels_last, layout_of, plain, strided
from core.backends.onednn.primitive import PostOperation, Primitive, launch, scratchpad_bytes
from core.types import Array, Shape

__all__ = ["full_width_convolution"]

_SUM: PostOperation = ("sum", 1.0)
PostOperations = tuple[PostOperation, ...]


class _RowByRow(Kernel):
    """Adds up products: the rows from each row of the window on, times that row's weights."""

    name = "onednn:convolution_full_width"
    inplace = ()
    uses_scratch = False

    def __init__(
        self, request: KernelRequest, layer: Any, data: Shape, out: Shape, post: PostOperations
    ) -> None:
        batch, _, length, width = data
        _, filters, places, _ = out
        self._height, self._width = layer.kernel[0], width
        self._has_bias = not layer.no_bias
        rows = strided((batch, places, width), (length * width, width, 1))
        weights = strided((1, width, filters), (1, 1, self._height * width))
        target = plain((batch, places, filters))
        bias = plain((1, 1, filters)) if self._has_bias else None
        self._products = [
            Primitive.of(
                "matmul",
                rows,
                weights,
                None if row else bias,
                target,
                post=(*((_SUM,) if row else ()), *(post if row == self._height - 1 else ())),
            )
            for row in range(self._height)
        ]
        self._spans = rows.nbytes // 4, weights.nbytes // 4
        self.scratchpad_bytes = scratchpad_bytes(*self._products)
        inputs = (None,) * len(request.inputs)
        self.layouts = KernelLayouts(inputs=inputs, outputs=(layout_of(channels_last(out)),))

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes all products."""
        data, weights = (present(array).reshape(-1) for array in arrays.inputs[:2])
        out = present(arrays.outputs[0])
        calls = []
        for row, primitive in enumerate(self._products):
            start = row * self._width
            tensors: dict[Argument, Array] = {
                Argument.SRC: data[start : start + self._spans[0]],
                Argument.WEIGHTS: weights[start : start + self._spans[1]],
                Argument.DST: out,
            }
            if self._has_bias and row == 0:
                tensors[Argument.BIAS] = present(arrays.inputs[2])
            calls.append(launch(primitive, tensors, resources))

        def call() -> None:
            for each in calls:
                each()

        return call


def full_width_convolution(
    request: KernelRequest, layer: Any, post: PostOperations = ()
) -> Kernel | None:
    """Prepare the forward pass with an activation, where the layer is of this form."""
    data, out = request.inputs[0], request.outputs[0]
    if not are_float32(request) or data is None or out is None or data.layout is not None:
        return None
    if len(data.shape) != 4 or data.shape[1] != 1 or layer.kernel[1] != data.shape[3]:
        return None
    window = layer.window
    is_simple = window.stride == (1, 1) and window.dilate == (1, 1) and window.pad == (0, 0)
    if not is_simple or layer.num_group != 1 or data.shape[3] == 1:
        return None
    return _RowByRow(request, layer, data.shape, out.shape, post)
