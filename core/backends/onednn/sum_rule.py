"""Gradients of a tensor plus, or minus, one that is repeated along some axes (a bias)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from core.backends.kernels import (
    Kernel,
    KernelArrays,
    KernelLayouts,
    KernelRequest,
    KernelResources,
    TensorSpec,
)
from core.backends.onednn.channel_sums import ChannelSums
from core.backends.onednn.joining import is_per_channel
from core.backends.onednn.kernel import are_float32, present
from core.backends.onednn.memory import desc_of
from core.backends.onednn.reduction import Sums
from core.types import Array, Shape

__all__ = ["addition_backward"]


class _Repeated(Kernel):
    """The gradient of the wide tensor, which is the output's, and the sums of it.

    Args:
        wide: position of the wide one of the two inputs.
        sums: of a plain gradient, or of one in any layout for each channel.
    """

    name = "onednn:add_backward"
    backward_inputs = ()
    backward_outputs = ()
    uses_scratch = False

    def __init__(self, grad: TensorSpec, wide: int, sums: Sums | ChannelSums) -> None:
        self._wide, self._narrow, self._sums = wide, 1 - wide, sums
        self.scratchpad_bytes = sums.scratchpad_bytes
        self.inplace = ((0, wide),)
        if isinstance(sums, ChannelSums):
            layouts = tuple(grad.layout if position == wide else None for position in range(2))
            self.layouts = KernelLayouts(out_grads=(grad.layout,), in_grads=layouts)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], None]:
        """Return a closure that computes the gradients wanted."""
        grad, narrow_grad = present(arrays.out_grads[0]), present(arrays.in_grads[self._narrow])
        wide_grad = arrays.in_grads[self._wide]
        if wide_grad is not None and wide_grad.ctypes.data == grad.ctypes.data:
            wide_grad = None
        add_up = self._adding(grad, narrow_grad, resources)

        def call() -> None:
            add_up()
            if wide_grad is not None:
                np.copyto(wide_grad, grad)

        return call

    def _adding(
        self, grad: Array, narrow_grad: Array, resources: KernelResources
    ) -> Callable[[], object]:
        if not isinstance(self._sums, ChannelSums):
            return self._sums.bind(grad, narrow_grad, resources)
        sums = self._sums.bind(grad, resources)
        of_samples = narrow_grad.reshape(narrow_grad.shape[:2])

        def add_up() -> None:
            found = sums()
            if len(found) == len(of_samples):
                np.copyto(of_samples, found)
            else:
                np.sum(found, axis=0, keepdims=True, out=of_samples)

        return add_up


def addition_backward(request: KernelRequest) -> Kernel | None:
    """Prepare the gradients where one input has the output's shape, and the other's is wanted."""
    left, right = request.inputs
    grad = request.out_grads[0]
    if not are_float32(request) or left is None or right is None or grad is None:
        return None
    wide = 0 if left.shape == grad.shape else 1
    narrow = (left, right)[1 - wide].shape
    is_negative = request.operator.names[0] == "broadcast_sub"
    if (left, right)[wide].shape != grad.shape or request.in_grads[1 - wide] is None:
        return None
    if is_negative and wide == 1:
        return None
    sign = -1.0 if is_negative else 1.0
    sums: Sums | ChannelSums | None
    if grad.layout is not None and is_per_channel(narrow, grad.shape):
        sums = ChannelSums(desc_of(grad), sign)
    else:
        sums = Sums.over(grad.shape, _repeated(narrow, grad.shape), sign)
    return None if sums is None else _Repeated(grad, wide, sums)


def _repeated(narrow: Shape, wide: Shape) -> Shape:
    """Return the axes along which a tensor is repeated."""
    aligned = (1,) * (len(wide) - len(narrow)) + narrow
    return tuple(axis for axis, size in enumerate(wide) if aligned[axis] != size)
