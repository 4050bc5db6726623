"""Gradients of a tensor plus or minus one that is broadcast, such as a bias."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...types import Shape
from ..kernel import Kernel, KernelArrays, KernelLayouts, KernelRequest, KernelResources, TensorSpec
from .broadcast import repeated_axes
from .channel_sums import ChannelSums
from .joining import is_per_channel
from .kernel import are_float32, present
from .memory import MemoryDesc, desc_of, plain
from .staged_reduction import Sums

__all__ = ["addition_backward", "sums_for"]


class _Repeated(Kernel):
    """The gradient of the wide tensor, which is that of the output, and its sums for the narrow
    one.

    Args:
        wide: position of the input that is not broadcast.
        sums: sums of a plain gradient, or by channel of one in any layout.
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
        """Return a closure that computes the requested gradients."""
        grad, narrow_grad = present(arrays.out_grads[0]), present(arrays.in_grads[self._narrow])
        wide_grad = arrays.in_grads[self._wide]
        if wide_grad is not None and wide_grad.ctypes.data == grad.ctypes.data:
            wide_grad = None
        add_up = self._sums.bind(grad, narrow_grad, resources)

        def call() -> None:
            add_up()
            if wide_grad is not None:
                np.copyto(wide_grad, grad)

        return call


def addition_backward(request: KernelRequest[object], *, sign: float) -> Kernel | None:
    """Prepare the gradients if one input has the output's shape and the other's gradient is
    requested.

    Args:
        request: the step.
        sign: sign of the right input.
    """
    left, right = request.inputs
    grad = request.out_grads[0]
    if not are_float32(request) or left is None or right is None or grad is None:
        return None
    wide = 0 if left.shape == grad.shape else 1
    narrow = (left, right)[1 - wide].shape
    if (
        left.shape == right.shape
        or (left, right)[wide].shape != grad.shape
        or request.in_grads[1 - wide] is None
    ):
        return None
    if sign < 0 and wide == 1:  # the wide gradient would be negated, not copied
        return None
    sums = sums_for(desc_of(grad), narrow, sign)
    return None if sums is None else _Repeated(grad, wide, sums)


def sums_for(desc: MemoryDesc, narrow: Shape, factor: float = 1.0) -> Sums | ChannelSums | None:
    """Return the sums that reduce a tensor to its shape before broadcasting: by channel for
    oneDNN's layouts, otherwise of a plain tensor; None if there is no kernel."""
    wide = desc.dims
    if desc != plain(wide) and is_per_channel(narrow, wide):
        return ChannelSums(desc, factor)
    return Sums.over(wide, repeated_axes(narrow, wide), factor)
