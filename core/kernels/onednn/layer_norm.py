"""Layer normalization over the last axis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...capabilities.layers import LayerNorm
from ...types import Array
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources
from .constants import Argument, Normalization, Propagation
from .kernel import are_float32, present
from .memory import MemoryDesc, plain
from .primitive import Primitive, launch, scratchpad_bytes

__all__ = ["layer_norm", "layer_norm_backward"]

_FLOAT32 = np.dtype("float32")
_FLAGS = Normalization.USE_SCALE | Normalization.USE_SHIFT


class _LayerNorm(Kernel):
    """The forward pass, which also writes the mean and sqrt(variance + eps)."""

    name = "onednn:layer_norm"
    inplace = ()
    uses_scratch = False

    def __init__(self, request: KernelRequest[LayerNorm], primitive: Primitive) -> None:
        self._primitive = primitive
        self._eps = np.float32(request.operator.eps)
        self.scratchpad_bytes = scratchpad_bytes(primitive)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], None]:
        """Return a closure that normalizes."""
        data, gamma, beta = map(present, arrays.inputs)
        out, mean, deviation = map(present, arrays.outputs)
        tensors = {
            Argument.SRC: data,
            Argument.DST: out,
            Argument.SCALE: gamma,
            Argument.SHIFT: beta,
            Argument.MEAN: mean,
            Argument.VARIANCE: deviation,
        }
        normalize, eps = launch(self._primitive, tensors, resources), self._eps

        def call() -> None:
            normalize()
            np.add(deviation, eps, out=deviation)
            np.sqrt(deviation, out=deviation)

        return call


class _LayerNormBackward(Kernel):
    """The backward pass, which recovers the variance from sqrt(variance + eps)."""

    name = "onednn:layer_norm_backward"
    backward_inputs = (0, 1)
    backward_outputs = (1, 2)

    def __init__(self, request: KernelRequest[LayerNorm], primitive: Primitive) -> None:
        self._primitive = primitive
        self._eps = np.float32(request.operator.eps)
        self.inplace = ()
        self.scratchpad_bytes = scratchpad_bytes(primitive)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], None]:
        """Return a closure that computes the requested gradients."""
        data, gamma = present(arrays.inputs[0]), present(arrays.inputs[1])
        mean, deviation = present(arrays.outputs[1]), present(arrays.outputs[2])
        variance = resources.allocate(deviation.shape, _FLOAT32)

        def own(array: Array | None, like: Array) -> Array:
            return resources.allocate(like.shape, _FLOAT32) if array is None else array

        data_grad, gamma_grad, beta_grad = arrays.in_grads
        tensors = {
            Argument.SRC: data,
            Argument.MEAN: mean,
            Argument.VARIANCE: variance,
            Argument.SCALE: gamma,
            # Required by the primitive, but not read.
            Argument.SHIFT: gamma,
            Argument.DIFF_DST: present(arrays.out_grads[0]),
            Argument.DIFF_SRC: present(data_grad),
            Argument.DIFF_SCALE: own(gamma_grad, gamma),
            Argument.DIFF_SHIFT: own(beta_grad, gamma),
        }
        differentiate, eps = launch(self._primitive, tensors, resources), self._eps

        def call() -> None:
            np.multiply(deviation, deviation, out=variance)
            np.subtract(variance, eps, out=variance)
            differentiate()

        return call


def layer_norm(request: KernelRequest[LayerNorm]) -> Kernel | None:
    """Prepare the forward pass."""
    return _LayerNorm(request, _forward(request)) if _is_supported(request) else None


def layer_norm_backward(request: KernelRequest[LayerNorm]) -> Kernel | None:
    """Prepare the backward pass if the gradient of the data is requested."""
    if not _is_supported(request) or request.in_grads[0] is None:
        return None
    desc, statistics = _descs(request)
    primitive = Primitive.of(
        "layer_normalization_backward",
        Propagation.BACKWARD,
        desc,
        desc,
        desc,
        statistics,
        request.operator.eps,
        _FLAGS,
        _forward(request),
    )
    return _LayerNormBackward(request, primitive)


def _forward(request: KernelRequest[LayerNorm]) -> Primitive:
    desc, statistics = _descs(request)
    return Primitive.of(
        "layer_normalization_forward",
        Propagation.FORWARD_TRAINING,
        desc,
        desc,
        statistics,
        request.operator.eps,
        _FLAGS,
    )


def _descs(request: KernelRequest[object]) -> tuple[MemoryDesc, MemoryDesc]:
    """Return the descriptors of the data and of its statistics."""
    data = request.inputs[0]
    assert data is not None
    return plain(data.shape), plain(data.shape[:-1])


def _is_supported(request: KernelRequest[LayerNorm]) -> bool:
    """Return whether the axis is the last of two or more."""
    data = request.inputs[0]
    if not are_float32(request) or data is None or len(data.shape) < 2:
        return False
    return bool(request.operator.axis % len(data.shape) == len(data.shape) - 1)
