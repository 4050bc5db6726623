"""Gradients of data, weights and bias."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...capabilities.layers import Convolution as Layer
from ...types import Array
from ..kernel import Kernel, KernelArrays, KernelLayouts, KernelRequest, KernelResources
from ..onednn.kernel import present
from .convolution import Convolution, convolve_bytes, problem_of
from .convolution_weights import of_tiles
from .library import in_turn, loaded, pointer

__all__ = ["convolution_backward"]

_FLOAT32 = np.dtype("float32")

_LINEAR = 1.0
"""Negative slope of the activation that means no activation."""
_SUMS_OF_THREAD = 1 << 20
"""Largest size in bytes of the weights' transformed gradient for which each thread accumulates a
separate sum. A larger one would not stay in a thread's cache."""
_TILES_IN_COMMON = 128
"""Tiles processed at a time if all threads share the sums."""


class _Backward(Kernel):
    """Computes the requested gradients."""

    name = "winograd:convolution_backward"
    backward_outputs = ()
    inplace = ()
    uses_scratch = False

    def __init__(self, request: KernelRequest[object], problem: Convolution) -> None:
        self._has_data, self._has_weight = (grad is not None for grad in request.in_grads[:2])
        self._of_data, self._of_weight = problem.transposed().as_c(), problem.as_c()
        self._weights = of_tiles(self._of_data, is_kept=False, is_turned=True)
        self._is_shared = self._weights.nbytes > _SUMS_OF_THREAD
        if self._is_shared:
            self._of_weight.tiles = _TILES_IN_COMMON
        # One gradient is computed after the other, in the same memory.
        self.scratchpad_bytes = max(self._scratch_of_data(), self._scratch_of_weight())
        wanted = (self._has_weight, self._has_data)
        self.backward_inputs = tuple(index for index in (0, 1) if wanted[index])
        data, result = problem.layouts
        inputs = (data, *(None for _ in request.inputs[1:]))
        self.layouts = KernelLayouts(inputs=inputs, out_grads=(result,), in_grads=inputs)

    def _scratch_of_data(self) -> int:
        if not self._has_data:
            return 0
        return self._weights.scratch_bytes + convolve_bytes(self._of_data)

    def _scratch_of_weight(self) -> int:
        if not self._has_weight:
            return 0
        floats = loaded().winograd_weight_grad_scratch(self._of_weight, self._is_shared)
        return floats * _FLOAT32.itemsize

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes the gradients, the data's with transformed weights."""
        calls: list[Callable[[], Any]] = []
        grad, scratch = pointer(arrays.out_grads[0]), present(resources.scratchpad)
        if self._has_data:
            weights = self._weights.bind(arrays, resources, calls)
            behind = pointer(scratch[self._weights.scratch_bytes :])
            target = pointer(arrays.in_grads[0])
            operands = (self._of_data, grad, pointer(weights), None, None, _LINEAR, target, behind)
            calls.append(partial(loaded().winograd_convolve, *operands))
        if self._has_weight:
            calls.append(
                partial(
                    loaded().winograd_weight_grad,
                    self._of_weight,
                    pointer(arrays.inputs[0]),
                    grad,
                    pointer(arrays.in_grads[1]),
                    _optional_pointer(arrays.in_grads[2:]),
                    pointer(scratch),
                    self._is_shared,
                )
            )
        return in_turn(calls)


def convolution_backward(request: KernelRequest[Layer]) -> Kernel | None:
    """Prepare the requested gradients."""
    _, wants_weight, *wants_bias = (grad is not None for grad in request.in_grads)
    if any(wants_bias) and not wants_weight:  # C sums the bias's gradient up beside the weights'
        return None
    problem = problem_of(request, request.operator)
    return None if problem is None else _Backward(request, problem)


def _optional_pointer(arrays: Any) -> Any:
    """Return the address of the bias's gradient, which is optional."""
    found: Array | None = next(iter(arrays), None)
    return None if found is None else pointer(found)
