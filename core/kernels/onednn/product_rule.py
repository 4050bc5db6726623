"""Gradients of elementwise products and quotients of two tensors, one of which may be broadcast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources, TensorSpec
from .channel_sums import ChannelSums, scaled
from .constants import Algorithm, Argument
from .joining import broadcast, is_per_channel
from .kernel import (
    Launches,
    PrimitiveKernel,
    are_float32,
    in_grad,
    input_,
    layouts_of,
    out_grad,
    output,
    present,
)
from .memory import MemoryDesc, alternatives, desc_of, plain
from .primitive import Primitive, first_available, launch, scratchpad_bytes
from .staged_reduction import Sums
from .sum_rule import sums_for

__all__ = ["division_backward", "multiplication_backward"]

_FLOAT32 = np.dtype("float32")


class _ScaleBackward(Kernel):
    """The gradients of ``wide * narrow``: the head gradient times the narrow tensor, and the sums
    of the head gradient times the wide tensor. The terms of these sums are stored temporarily in
    the memory of the first gradient.

    For a quotient: the head gradient divided by the narrow tensor, and the sums of the head
    gradient times the output, divided by the narrow tensor.
    """

    name = "onednn:scale_backward"
    inplace = ()
    uses_scratch = False

    def __init__(
        self,
        request: KernelRequest[object],
        wide: int,
        scale: Primitive,
        sums: Sums | ChannelSums | None,
        *,
        divides: bool,
    ) -> None:
        self._wide, self._narrow = wide, 1 - wide
        self._scale, self._multiply, self._sums = scale, scale, sums
        self._divides = divides
        self._factor = output() if self._divides else input_(wide)
        grad, target = out_grad(), in_grad(wide)
        divisor = input_(self._narrow)
        operands = {Argument.SRC: grad, Argument.SRC_1: divisor, Argument.DST: target}
        launches: Launches = [(scale, operands)]
        self.scratchpad_bytes = scratchpad_bytes(scale)
        read = {divisor}
        if sums is not None:
            desc = scale.desc(Argument.SRC)
            self._multiply = Primitive.of("binary", Algorithm.BINARY_MULTIPLY, desc, desc, desc)
            operands = {Argument.SRC: grad, Argument.SRC_1: self._factor, Argument.DST: target}
            launches.append((self._multiply, operands))
            used = scratchpad_bytes(scale, self._multiply)
            self.scratchpad_bytes = max(used, sums.scratchpad_bytes)
            read.add(self._factor)
        self.backward_inputs = tuple(sorted(one.index for one in read if one.field == "inputs"))
        self.backward_outputs = tuple(one.index for one in read if one.field == "outputs")
        self.layouts = layouts_of(request, launches)

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], Any]:
        """Return a closure that computes the requested gradients."""
        grad, wide_grad = present(arrays.out_grads[0]), present(arrays.in_grads[self._wide])
        narrow = present(arrays.inputs[self._narrow])
        tensors = {Argument.SRC: grad, Argument.SRC_1: narrow, Argument.DST: wide_grad}
        scale = launch(self._scale, tensors, resources)
        if self._sums is None:
            return scale.call
        # The terms of the sums first; `scale` then overwrites them with the first gradient.
        factor = self._factor.of(arrays)
        tensors = {Argument.SRC: grad, Argument.SRC_1: factor, Argument.DST: wide_grad}
        multiply = launch(self._multiply, tensors, resources)
        narrow_grad = present(arrays.in_grads[self._narrow])
        add_up = self._sums.bind(wide_grad.view(_FLOAT32), narrow_grad, resources)
        divides = self._divides

        def call() -> Any:
            multiply()
            add_up()
            if divides:
                np.divide(narrow_grad, narrow, out=narrow_grad)
            return scale.call()

        return call


def multiplication_backward(request: KernelRequest[object]) -> Kernel | None:
    """Prepare the requested gradients, in the layout of the head gradient."""
    left, right = request.inputs
    grad = request.out_grads[0]
    if not are_float32(request) or left is None or right is None or grad is None:
        return None
    if left.shape == right.shape:
        return _of_product(request, grad)
    wide = 0 if left.shape == grad.shape else 1
    return _of_repeated(request, grad, wide, Algorithm.BINARY_MULTIPLY)


def division_backward(request: KernelRequest[object]) -> Kernel | None:
    """Prepare the requested gradients; only the divisor may be broadcast."""
    left, right = request.inputs
    grad = request.out_grads[0]
    if not are_float32(request) or left is None or right is None or grad is None:
        return None
    if left.shape == right.shape:
        return _of_quotient(request, grad)
    return _of_repeated(request, grad, 0, Algorithm.BINARY_DIVIDE)


def _of_repeated(
    request: KernelRequest[object], grad: TensorSpec, wide: int, algorithm: Algorithm
) -> Kernel | None:
    divides, specs = algorithm is Algorithm.BINARY_DIVIDE, request.inputs
    whole, narrow = specs[wide], specs[1 - wide]
    if whole is None or narrow is None:
        return None
    if whole.shape != grad.shape or request.in_grads[wide] is None:
        return None
    scale, shape = broadcast(algorithm, grad, narrow), narrow.shape
    if request.in_grads[1 - wide] is None:
        return _ScaleBackward(request, wide, scale, None, divides=divides)
    desc, other = scale.desc(Argument.SRC), scale.desc(Argument.SRC_1)
    # Sums are by channel or of a plain tensor, and NumPy divides them by a plain narrow tensor.
    can_divide = not divides or other == plain(other.dims)
    if desc != plain(desc.dims) and not (is_per_channel(shape, desc.dims) and can_divide):
        scale = broadcast(algorithm, TensorSpec(grad.shape, grad.dtype), narrow)
    sums = sums_for(scale.desc(Argument.SRC), shape, -1.0 if divides else 1.0)
    if sums is None:
        return None
    return _ScaleBackward(request, wide, scale, sums, divides=divides)


def _elementwise(
    request: KernelRequest[object], grad: TensorSpec, algorithm: Algorithm
) -> Primitive:
    """Return the arithmetic in the layout of one of the operands, if possible."""

    def make(desc: MemoryDesc) -> Primitive:
        return Primitive.of("binary", algorithm, desc, desc, desc)

    known = (grad, *(spec for spec in request.inputs if spec is not None))
    blocked = [desc_of(spec) for spec in known if spec.layout is not None]
    return first_available(make, (*blocked[:1], *alternatives(grad)))


def _of_product(request: KernelRequest[object], grad: TensorSpec) -> Kernel:
    primitive = _elementwise(request, grad, Algorithm.BINARY_MULTIPLY)
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
    # The left gradient may share the head gradient's memory, so it must be written last.
    return PrimitiveKernel("multiply_backward", request, *launches, inplace=((0, 0),))


def _of_quotient(request: KernelRequest[object], grad: TensorSpec) -> Kernel:
    """The right gradient is the negated product of the left one and the output."""
    divide = _elementwise(request, grad, Algorithm.BINARY_DIVIDE)
    left, right = (spec is not None for spec in request.in_grads)
    quotient = in_grad(0 if left else 1)
    operands = {Argument.SRC: out_grad(), Argument.SRC_1: input_(1), Argument.DST: quotient}
    launches: Launches = [(divide, operands)]
    if right:
        desc = divide.desc(Argument.SRC)
        kind, negative = Algorithm.BINARY_MULTIPLY, scaled(-1.0)
        multiply = Primitive.of("binary", kind, desc, desc, desc, post=negative)
        operands = {Argument.SRC: quotient, Argument.SRC_1: output(), Argument.DST: in_grad(1)}
        launches.append((multiply, operands))
    return PrimitiveKernel("divide_backward", request, *launches, inplace=((0, 0),))
