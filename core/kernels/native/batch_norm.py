"""Batch normalization in training, alone or followed by an activation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...capabilities.functions import Function, Pointwise, is_relu
from ...capabilities.fused import BatchNormActivation
from ...capabilities.layers import BatchNorm
from ...types import Array
from ..kernel import (
    Kernel,
    KernelArrays,
    KernelLayouts,
    KernelRequest,
    KernelResources,
    Layout,
    TensorSpec,
)
from ..onednn.kernel import are_float32, present
from ..onednn.memory import blocked, channels_last, layout_of
from .library import library, loaded, pointer, threads
from .structures import Follows, Maps

__all__ = [
    "batch_norm",
    "batch_norm_activation",
    "batch_norm_activation_backward",
    "batch_norm_backward",
]

_FLOAT32 = np.dtype("float32")
_LANES = 16
_NONE, _RELU, _KEEPING_RELU, _CLIP = range(4)
"""Kinds of activations that follow a batch norm, in the order of ``batch_norm.c``."""


class _BatchNorm(Kernel):
    """The forward pass. Its workspace is the variance; the operator outputs 1 / sqrt(variance +
    eps).

    Args:
        norm: operator ``BatchNorm``.
        maps: sizes and strides.
        layout: of the data.
        follows: the activation that follows.
    """

    name = "native:batch_norm"
    inplace = ()
    uses_scratch = False

    def __init__(
        self, norm: BatchNorm, maps: Maps, layout: Layout | None, follows: Follows
    ) -> None:
        self.norm, self.maps, self.layout, self.follows = norm, maps, layout, follows
        self.layouts = KernelLayouts(
            inputs=(layout, None, None, None, None), outputs=(layout, None, None)
        )
        self.workspace_bytes = maps.channels * _FLOAT32.itemsize
        self.scratchpad_bytes = _scratch(maps)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that normalizes and writes the statistics."""
        data, gamma, beta = arrays.inputs[:3]
        result, mean, inverse = arrays.outputs
        return partial(
            loaded().batch_norm_forward,
            self.maps,
            pointer(data),
            None if self.norm.fix_gamma else pointer(gamma),
            pointer(beta),
            self.norm.eps,
            self.follows,
            pointer(result),
            pointer(mean),
            pointer(arrays.workspace),
            pointer(inverse),
            pointer(resources.scratchpad),
        )


class _BatchNormBackward(Kernel):
    """The backward pass, which also updates the moving averages, as MXNet does there.

    Args:
        forward: the kernel of the forward pass.
    """

    name = "native:batch_norm_backward"
    # Gamma and beta as well: the activation's input is computed again.
    backward_inputs = (0, 1, 2, 3, 4)
    backward_outputs = (1, 2)
    inplace = ()

    def __init__(self, forward: _BatchNorm) -> None:
        self._forward = forward
        layout = forward.layout
        self.layouts = KernelLayouts(
            inputs=(layout, None, None, None, None),
            outputs=(layout, None, None),
            out_grads=(layout, None, None),
            in_grads=(layout, None, None, None, None),
        )
        self.scratchpad_bytes = forward.scratchpad_bytes

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes the gradients."""
        forward = self._forward
        norm = forward.norm
        data, gamma, beta, moving_mean, moving_var = map(present, arrays.inputs)
        mean, inverse = present(arrays.outputs[1]), present(arrays.outputs[2])
        variance = present(arrays.workspace).view(_FLOAT32)

        # The data's gradient is computed from both, wanted or not.
        def own(array: Array | None) -> Array:
            return resources.allocate(gamma.shape, _FLOAT32) if array is None else array

        gamma_grad, beta_grad = own(arrays.in_grads[1]), own(arrays.in_grads[2])
        differentiate = partial(
            loaded().batch_norm_backward,
            forward.maps,
            pointer(data),
            None if norm.fix_gamma else pointer(gamma),
            pointer(beta),
            pointer(mean),
            pointer(inverse),
            forward.follows,
            pointer(arrays.out_grads[0]),
            pointer(arrays.in_grads[0]),
            pointer(gamma_grad),
            pointer(beta_grad),
            pointer(resources.scratchpad),
        )
        moved = ((moving_mean, mean), (moving_var, variance))
        momentum, share = np.float32(norm.momentum), np.float32(1 - norm.momentum)

        def call() -> None:
            differentiate()
            if norm.fix_gamma:
                gamma_grad.fill(0)  # as in MXNet
            for moving, batch in moved:
                part = resources.scratch(batch.shape, _FLOAT32)
                np.multiply(batch, share, out=part)
                np.multiply(moving, momentum, out=moving)
                np.add(moving, part, out=moving)

        return call


def batch_norm(request: KernelRequest[BatchNorm]) -> Kernel | None:
    """Prepare the forward pass."""
    return _forward(request, request.operator, Follows(_NONE))


def batch_norm_activation(request: KernelRequest[BatchNormActivation]) -> Kernel | None:
    """Prepare the forward pass followed by an activation."""
    fused = request.operator
    follows = _follows(fused.activation.pointwise())
    return None if follows is None else _forward(request, fused.norm, follows)


def batch_norm_backward(request: KernelRequest[BatchNorm]) -> Kernel | None:
    """Prepare the backward pass if this kernel ran the forward pass."""
    forward = request.forward
    if not isinstance(forward, _BatchNorm) or request.in_grads[0] is None:
        return None
    return _BatchNormBackward(forward)


def batch_norm_activation_backward(request: KernelRequest[BatchNormActivation]) -> Kernel | None:
    """Prepare the backward pass of both."""
    return batch_norm_backward(request.of(request.operator.norm))


def _follows(function: Pointwise | None) -> Follows | None:
    """Return the activation as the library takes it; None for one that it does not know."""
    if function is None:
        return None
    if is_relu(function):
        return Follows(_KEEPING_RELU if function.keeps_nan else _RELU)
    if function.function is Function.CLIP:
        return Follows(_CLIP, function.alpha, function.beta)
    return None


def _forward(request: KernelRequest[object], norm: BatchNorm, follows: Follows) -> Kernel | None:
    data = request.inputs[0]
    if library() is None or data is None or not are_float32(request):
        return None
    if not request.is_train or norm.use_global_stats or norm.axis != 1:
        return None
    maps = _maps(data)
    return None if maps is None else _BatchNorm(norm, maps, data.layout, follows)


def _maps(data: TensorSpec) -> Maps | None:
    """Return sizes and strides; None if channels are not in blocks of 16."""
    if len(data.shape) != 4 or data.shape[1] % _LANES:
        return None
    images, channels, height, width = data.shape
    is_last = data.layout == layout_of(channels_last(data.shape))
    if not is_last and data.layout != layout_of(blocked(data.shape)):
        return None
    pixels = height * width
    return Maps(
        images=images,
        channels=channels,
        pixels=pixels,
        image=channels * pixels,
        block=_LANES if is_last else pixels * _LANES,
        pixel=channels if is_last else _LANES,
        threads=threads(),
    )


def _scratch(maps: Maps) -> int:
    return int(loaded().batch_norm_scratch(maps) * maps.threads * _FLOAT32.itemsize)
