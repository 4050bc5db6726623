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
from core.backends.onednn.memory import alternatives, desc_of, plain
from core.backends.onednn.primitive import Primitive, first_available, launch, scratchpad_bytes
from core.backends.onednn.stages import Sums
from core.backends.onednn.sum_rule import sums_for

__all__ = ["multiplication_backward"]

_FLOAT32 = np.dtype("float32")


class _ScaleBackward(Kernel):
    """The gradients of ``wide * narrow``: the head's times the narrow, and the sums of the head's
    times the wide, whose summands lie for a moment where the first gradient will."""

    name = "onednn:scale_backward"
    backward_outputs = ()
    inplace = ()
    uses_scratch = False

    def __init__(
        self,
        request: KernelRequest,
        wide: int,
        scale: Primitive,
        sums: Sums | ChannelSums | None,
    ) -> None:
        self._wide, self._narrow = wide, 1 - wide
        self._scale, self._sums = scale, sums
        operands = {
            Argument.SRC: out_grad(),
            Argument.SRC_1: input_(self._narrow),
            Argument.DST: in_grad(wide),
        }
        launches: Launches = [(scale, operands)]
        self.backward_inputs: tuple[int, ...] = (self._narrow,)
        self.scratchpad_bytes = scratchpad_bytes(scale)
        self._multiply = scale
        if sums is not None:
            desc = scale.desc(Argument.SRC)
            multiply = Primitive.of("binary", Algorithm.BINARY_MULTIPLY, desc, desc, desc)
            self._multiply = multiply
            operands = {Argument.SRC: out_grad(), Argument.SRC_1: input_(wide)}
            launches.append((multiply, {**operands, Argument.DST: in_grad(wide)}))
            self.backward_inputs = (0, 1)
            used = scratchpad_bytes(scale, multiply)
            self.scratchpad_bytes = max(used, sums.scratchpad_bytes)
        self.layouts = layouts_of(request, launches)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes the gradients wanted."""
        grad, wide_grad = present(arrays.out_grads[0]), present(arrays.in_grads[self._wide])
        narrow = present(arrays.inputs[self._narrow])
        tensors = {Argument.SRC: grad, Argument.SRC_1: narrow, Argument.DST: wide_grad}
        scale = launch(self._scale, tensors, resources)
        if self._sums is None:
            return scale.call
        wide = present(arrays.inputs[self._wide])
        tensors = {Argument.SRC: grad, Argument.SRC_1: wide, Argument.DST: wide_grad}
        multiply = launch(self._multiply, tensors, resources)
        narrow_grad = present(arrays.in_grads[self._narrow])
        add_up = self._sums.bind(wide_grad.view(_FLOAT32), narrow_grad, resources)

        def call() -> Any:
            multiply()
            add_up()
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
    if specs[wide].shape != grad.shape or request.in_grads[wide] is None:
        return None
    scale, shape = broadcast(Algorithm.BINARY_MULTIPLY, grad, specs[narrow]), specs[narrow].shape
    if request.in_grads[narrow] is None:
        return _ScaleBackward(request, wide, scale, None)
    desc = scale.desc(Argument.SRC)
    if desc != plain(desc.dims) and not is_per_channel(shape, desc.dims):
        scale = broadcast(
            Algorithm.BINARY_MULTIPLY, TensorSpec(grad.shape, grad.dtype), specs[narrow]
        )
    sums = sums_for(scale.desc(Argument.SRC), shape)
    return None if sums is None else _ScaleBackward(request, wide, scale, sums)


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
