"""Gradients of products, element by element: of two tensors, or of images and their channels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from core.backends.kernels import Kernel, KernelArrays, KernelRequest, KernelResources, TensorSpec
from core.backends.onednn.channel_sums import ChannelSums
from core.backends.onednn.constants import Algorithm, Argument
from core.backends.onednn.joining import broadcast, is_per_channel
from core.backends.onednn.kernel import (
    Launches,
    PrimitiveKernel,
    are_float32,
    in_grad,
    input_,
    layouts_of,
    out_grad,
    present,
)
from core.backends.onednn.memory import alternatives, desc_of
from core.backends.onednn.primitive import Primitive, first_available, launch, scratchpad_bytes

__all__ = ["multiplication_backward"]


class _ScaleBackward(Kernel):
    """The gradients of ``wide * narrow``: the head's times the narrow, and the sums of the head's
    times the wide, whose summands lie for a moment where the first gradient will."""

    name = "onednn:scale_backward"
    backward_outputs = ()
    inplace = ()
    uses_scratch = False

    def __init__(
        self, request: KernelRequest, wide: int, scale: Primitive, multiply: Primitive | None
    ) -> None:
        self._wide, self._narrow = wide, 1 - wide
        self._scale, self._multiply, self._sums = scale, multiply, None
        operands = {
            Argument.SRC: out_grad(),
            Argument.SRC_1: input_(self._narrow),
            Argument.DST: in_grad(wide),
        }
        launches: Launches = [(scale, operands)]
        self.backward_inputs: tuple[int, ...] = (self._narrow,)
        self.scratchpad_bytes = scratchpad_bytes(scale)
        if multiply is not None:
            operands = {Argument.SRC: out_grad(), Argument.SRC_1: input_(wide)}
            launches.append((multiply, {**operands, Argument.DST: in_grad(wide)}))
            self.backward_inputs = (0, 1)
            self._sums = ChannelSums(multiply.desc(Argument.DST))
            self.scratchpad_bytes = max(
                scratchpad_bytes(scale, multiply), self._sums.scratchpad_bytes
            )
        self.layouts = layouts_of(request, launches)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes the gradients wanted."""
        grad, wide_grad = present(arrays.out_grads[0]), present(arrays.in_grads[self._wide])
        narrow = present(arrays.inputs[self._narrow])
        tensors = {Argument.SRC: grad, Argument.SRC_1: narrow, Argument.DST: wide_grad}
        scale = launch(self._scale, tensors, resources)
        if self._multiply is None or self._sums is None:
            return scale.call
        wide = present(arrays.inputs[self._wide])
        tensors = {Argument.SRC: grad, Argument.SRC_1: wide, Argument.DST: wide_grad}
        multiply = launch(self._multiply, tensors, resources)
        sums = self._sums.bind(wide_grad, resources)
        narrow_grad = present(arrays.in_grads[self._narrow])
        of_samples = narrow_grad.reshape(narrow_grad.shape[:2])

        def call() -> Any:
            multiply()
            found = sums()
            if len(found) == len(of_samples):
                np.copyto(of_samples, found)
            else:
                np.sum(found, axis=0, keepdims=True, out=of_samples)
            return scale.call()

        return call


def multiplication_backward(request: KernelRequest) -> Kernel | None:
    """Prepare the gradients that are wanted, in the layout of the head's."""
    left, right = request.inputs
    grad = request.out_grads[0]
    if not are_float32(request) or left is None or right is None or grad is None:
        return None
    if left.shape == right.shape:
        return _elementwise(request, grad)
    wide, narrow = (0, 1) if left.shape == grad.shape else (1, 0)
    specs = (left, right)
    is_image = specs[wide].shape == grad.shape
    if not is_image or not is_per_channel(specs[narrow].shape, grad.shape):
        return None
    if request.in_grads[wide] is None:
        return None
    scale = broadcast(Algorithm.BINARY_MULTIPLY, grad, specs[narrow])
    multiply = None
    if request.in_grads[narrow] is not None:
        desc = scale.desc(Argument.SRC)
        multiply = Primitive.of("binary", Algorithm.BINARY_MULTIPLY, desc, desc, desc)
    return _ScaleBackward(request, wide, scale, multiply)


def _elementwise(request: KernelRequest, grad: TensorSpec) -> Kernel:
    def make(desc: Any) -> Primitive:
        return Primitive.of("binary", Algorithm.BINARY_MULTIPLY, desc, desc, desc)

    known = (grad, *(spec for spec in request.inputs if spec is not None))
    blocked = [desc_of(spec) for spec in known if spec.layout is not None]
    primitive = first_available(make, (*blocked[:1], *alternatives(grad)))
    launches = [
        (
            primitive,
            {
                Argument.SRC: out_grad(),
                Argument.SRC_1: input_(1 - index),
                Argument.DST: in_grad(index),
            },
        )
        for index in (1, 0)
        if request.in_grads[index] is not None
    ]
    # The left gradient may lie over the head's: it comes last.
    return PrimitiveKernel("multiply_backward", request, *launches, inplace=((0, 0),))
