"""Layer normalization over the last axis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from core.backends.kernels import Kernel, KernelArrays, KernelRequest, KernelResources
from core.backends.onednn.constants import Argument, Normalization, Propagation
from core.backends.onednn.kernel import are_float32, present
from core.backends.onednn.memory import plain
from core.backends.onednn.primitive import Primitive, launch, scratchpad_bytes

__all__ = ["layer_norm"]

_FLAGS = Normalization.USE_SCALE | Normalization.USE_SHIFT


class _LayerNorm(Kernel):
    """The forward pass, which writes the mean and sqrt(variance + eps), too."""

    name = "onednn:layer_norm"
    inplace = ()
    uses_scratch = False

    def __init__(self, request: KernelRequest, primitive: Primitive) -> None:
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


def layer_norm(request: KernelRequest) -> Kernel | None:
    """Prepare the forward pass; the backward pass is the reference's."""
    data = request.inputs[0]
    if not are_float32(request) or data is None:
        return None
    if request.operator.axis % len(data.shape) != len(data.shape) - 1 or len(data.shape) < 2:
        return None
    desc = plain(data.shape)
    primitive = Primitive.of(
        "layer_normalization_forward",
        Propagation.FORWARD_TRAINING,
        desc,
        desc,
        plain(data.shape[:-1]),
        request.operator.eps,
        _FLAGS,
    )
    return _LayerNorm(request, primitive)
