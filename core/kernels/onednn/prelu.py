"""The leaky ReLU with learned slopes: one for each channel, or one for all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...types import Array, Shape
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources, TensorSpec
from .constants import Argument, Propagation
from .kernel import are_float32, in_grad, input_, layouts_of, out_grad, output, present
from .memory import MemoryDesc, alternatives, any_layout, desc_of
from .primitive import Primitive, first_available, launch

__all__ = ["prelu", "prelu_backward"]

_FLOAT32 = np.dtype("float32")


class _Prelu(Kernel):
    """The forward pass. oneDNN takes the slopes as a padded tensor with the data's axes."""

    name = "onednn:prelu"
    inplace = ((0, 0),)
    uses_scratch = False

    def __init__(self, request: KernelRequest[object], primitive: Primitive) -> None:
        self._primitive = primitive
        operands = {Argument.SRC: input_(0), Argument.DST: output()}
        self.layouts = layouts_of(request, ((primitive, operands),))

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], None]:
        """Return a closure that computes."""
        data, gamma = map(present, arrays.inputs)
        slopes, fill = _slopes(self._primitive, gamma, resources)
        tensors = {
            Argument.SRC: data,
            Argument.WEIGHTS: slopes,
            Argument.DST: present(arrays.outputs[0]),
        }
        compute = launch(self._primitive, tensors, resources)

        def call() -> None:
            fill()
            compute()

        return call


class _PreluBackward(Kernel):
    """The backward pass."""

    name = "onednn:prelu_backward"
    backward_inputs = (0, 1)
    backward_outputs = ()
    inplace = ()
    uses_scratch = False

    def __init__(self, request: KernelRequest[object], primitive: Primitive) -> None:
        self._primitive = primitive
        operands = {
            Argument.SRC: input_(0),
            Argument.DIFF_DST: out_grad(),
            Argument.DIFF_SRC: in_grad(),
        }
        self.layouts = layouts_of(request, ((primitive, operands),))

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> Callable[[], None]:
        """Return a closure that computes the requested gradients."""
        data, gamma = map(present, arrays.inputs)
        data_grad, gamma_grad = arrays.in_grads
        slopes, fill = _slopes(self._primitive, gamma, resources)
        slopes_grad = resources.allocate(slopes.shape, slopes.dtype)
        tensors = {
            Argument.SRC: data,
            Argument.WEIGHTS: slopes,
            Argument.DIFF_DST: present(arrays.out_grads[0]),
            Argument.DIFF_SRC: present(data_grad),
            Argument.DIFF_WEIGHTS: slopes_grad,
        }
        differentiate = launch(self._primitive, tensors, resources)
        # Padding comes after the channels.
        per_channel = slopes_grad.view(_FLOAT32)[: _channels(self._primitive)]

        def call() -> None:
            fill()
            differentiate()
            if gamma_grad is None:
                return
            if gamma_grad.size == 1:
                gamma_grad[0] = per_channel.sum()
            else:
                np.copyto(gamma_grad, per_channel)

        return call


def prelu(request: KernelRequest[object]) -> Kernel | None:
    """Prepare the forward pass."""
    data = _data(request)
    if data is None:
        return None
    return _Prelu(request, first_available(_forward, alternatives(data)))


def prelu_backward(request: KernelRequest[object]) -> Kernel | None:
    """Prepare the gradients of data and slopes."""
    data = _data(request)
    if data is None or request.in_grads[0] is None:
        return None

    def make(desc: MemoryDesc) -> Primitive:
        weight = any_layout(_shape_of_slopes(desc.dims))
        return Primitive.of("prelu_backward", desc, weight, desc, weight, desc, _forward(desc))

    grad = request.out_grads[0]
    given = () if grad is None else (desc_of(grad),)
    # The layout of the output's gradient: that of the data would need two more reorders.
    return _PreluBackward(request, first_available(make, (*given, *alternatives(data))))


def _forward(desc: MemoryDesc) -> Primitive:
    weight = any_layout(_shape_of_slopes(desc.dims))
    return Primitive.of("prelu_forward", Propagation.FORWARD_TRAINING, desc, weight, desc)


def _data(request: KernelRequest[object]) -> TensorSpec | None:
    """Return the data if it has channels and there is one slope for each or one for all."""
    data, gamma = request.inputs
    if not are_float32(request) or data is None or len(data.shape) < 2:
        return None
    return data if gamma is not None and len(gamma.shape) == 1 else None


def _shape_of_slopes(data: Shape) -> Shape:
    return (1, data[1], *(1 for _ in data[2:]))


def _channels(primitive: Primitive) -> int:
    return primitive.desc(Argument.WEIGHTS).dims[1]


def _slopes(
    primitive: Primitive, gamma: Array, resources: KernelResources
) -> tuple[Array, Callable[[], None]]:
    """Return the memory of the slopes in oneDNN's form, and a closure that copies them there."""
    slopes = resources.allocate((primitive.desc(Argument.WEIGHTS).nbytes,), np.dtype("uint8"))
    slopes.fill(0)  # the padding, which oneDNN expects to be zeros
    per_channel = slopes.view(_FLOAT32)[: _channels(primitive)]

    def fill() -> None:
        np.copyto(per_channel, gamma)

    return slopes, fill
