"""Forward passes of convolutions and the operators fused with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...capabilities.functions import Function
from ...capabilities.fused import FusedConvolution
from ...capabilities.layers import BatchNorm
from ...capabilities.layers import Convolution as Layer
from ...types import Array
from ..kernel import Kernel, KernelArrays, KernelLayouts, KernelRequest, KernelResources
from ..onednn.fused import fold
from ..onednn.kernel import present
from .activated import Activated
from .convolution import Convolution, convolve_bytes, problem_of
from .convolution_weights import Weights, along_lines, of_tiles
from .library import in_turn, loaded, pointer
from .winograd_1d import LineConvolution, line_problem_of

__all__ = ["convolution", "fused_convolution"]

_FLOAT32 = np.dtype("float32")


class _Method(NamedTuple):
    """How ``winograd.c`` or ``lines.c`` computes a convolution.

    Attributes:
        problem: the C structure.
        weights: the weights it takes.
        convolve: the C function.
        scratch_bytes: what that needs.
    """

    problem: Any
    weights: Weights
    convolve: Callable[..., None]
    scratch_bytes: int


def _method(found: Convolution | LineConvolution, *, is_kept: bool) -> _Method:
    if isinstance(found, LineConvolution):
        lines = found.as_c()
        floats = loaded().winograd_1d_convolve_scratch(lines) * lines.threads
        weights = along_lines(lines, is_kept=is_kept)
        return _Method(lines, weights, loaded().winograd_1d_convolve, floats * _FLOAT32.itemsize)
    problem = found.as_c()
    weights = of_tiles(problem, is_kept=is_kept)
    return _Method(problem, weights, loaded().winograd_convolve, convolve_bytes(problem))


class _Forward(Kernel):
    """Convolves, adds bias and residual, and applies ReLU.

    Args:
        request: the step.
        problem: the convolution.
        layer: its operator.
        norm: the batch norm to be folded into the weights, or None.
        has_residual: whether the last input is a residual to be added.
        slope: slope below zero of the activation that follows: 0 for ReLU, 1 for none.
    """

    name = "winograd:convolution"
    uses_scratch = False

    def __init__(
        self,
        request: KernelRequest[object],
        problem: Convolution | LineConvolution,
        layer: Layer,
        norm: BatchNorm | None = None,
        *,
        has_residual: bool = False,
        slope: float = 1.0,
    ) -> None:
        # In training weights change at each step, so caching their transform would not help.
        is_kept = request.is_constant[1] and not request.is_train
        self._method = _method(problem, is_kept=is_kept or norm is not None)
        self._weights, self._outputs = self._method.weights, problem.output[1]
        self._layer, self._norm = layer, norm
        self._has_residual, self._slope = has_residual, slope
        self.scratchpad_bytes = self._weights.scratch_bytes + self._method.scratch_bytes
        data, result = problem.layouts
        inputs = (data, *(None for _ in request.inputs[1:]))
        if has_residual:
            inputs = (*inputs[:-1], result)
        self.inplace = ((len(inputs) - 1, 0),) if has_residual else ()
        self.layouts = KernelLayouts(inputs=inputs, outputs=(result,))

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes with transformed weights."""
        calls: list[Callable[[], Any]] = []
        if self._norm is None:
            weights = self._weights.bind(arrays, resources, calls)
            bias = None if self._layer.no_bias else present(arrays.inputs[2])
        else:
            weights, bias = self._folded(self._norm, arrays, resources)
        calls.append(
            partial(
                self._method.convolve,
                self._method.problem,
                pointer(arrays.inputs[0]),
                pointer(weights),
                None if bias is None else pointer(bias),
                pointer(arrays.inputs[-1]) if self._has_residual else None,
                self._slope,
                pointer(arrays.outputs[0]),
                pointer(present(resources.scratchpad)[self._weights.scratch_bytes :]),
            )
        )
        return in_turn(calls)

    def _folded(
        self, norm: BatchNorm, arrays: KernelArrays, resources: KernelResources
    ) -> tuple[Array, Array]:
        """Return weights and bias with the batch norm folded in, which the plan caches."""
        # Both in one entry, because both change with any of these inputs.
        count, size = (5 if self._layer.no_bias else 6), self._weights.nbytes
        kept = resources.prepack(
            (self._weights.key, norm.eps, norm.fix_gamma),
            range(1, 1 + count),
            size + self._outputs * _FLOAT32.itemsize,
            partial(self._fold, norm, arrays.inputs[1 : 1 + count]),
        )
        return kept[:size], kept[size:]

    def _fold(self, norm: BatchNorm, inputs: Sequence[Array | None], kept: Array) -> None:
        weight, bias = fold(self._layer, norm, inputs)
        size = self._weights.nbytes
        kept[size:].view(_FLOAT32)[...] = bias
        self._weights.transform(np.ascontiguousarray(weight), kept)


def convolution(request: KernelRequest[Layer]) -> Kernel | None:
    """Prepare the forward pass."""
    layer = request.operator
    problem = problem_of(request, layer) or line_problem_of(request, layer)
    return None if problem is None else _Forward(request, problem, layer)


def fused_convolution(request: KernelRequest[FusedConvolution]) -> Kernel | None:
    """Prepare a convolution with an optional batch norm, residual and activation.

    A ReLU, which may be leaky, is applied to results before they are stored.
    """
    fused = request.operator
    problem = problem_of(request, fused.layer) or line_problem_of(request, fused.layer)
    function = None if fused.activation is None else fused.activation.pointwise()
    if problem is None or (function is None and fused.activation is not None):
        return None
    is_relu = function is not None and function.function is Function.RELU
    kernel = _Forward(
        request,
        problem,
        fused.layer,
        fused.batch_norm,
        has_residual=fused.has_residual,
        slope=function.alpha if function is not None and is_relu else 1.0,
    )
    if function is None or is_relu:
        return kernel
    return Activated(kernel, function, problem.result_desc)
