"""Functions of one number, element by element."""

from __future__ import annotations

from ...capabilities.arrays import HasFunction, LeakyRelu
from ...capabilities.functions import Function, Pointwise, is_relu
from ...types import shape_size
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources
from .kernel import CudaKernel, element_macros, present, specs_of, storage_type
from .launch import Call, call, function, grid_of
from .local_response import prelu, prelu_backward

__all__ = ["leaky_relu", "leaky_relu_backward", "pointwise", "pointwise_backward"]

_CLASSES = {
    Function.ABSOLUTE: "Absolute",
    Function.CLIP: "Clip",
    Function.ELU: "Elu",
    Function.GELU: "Gelu",
    Function.HARD_SIGMOID: "HardSigmoid",
    Function.HARD_SWISH: "HardSwish",
    Function.LINEAR: "Linear",
    Function.RELU: "LeakyRelu",
    Function.SIGMOID: "Sigmoid",
    Function.SOFT_RELU: "SoftRelu",
    Function.SQUARE: "Square",
    Function.SQUARE_ROOT: "SquareRoot",
    Function.SWISH: "Swish",
    Function.TANH: "Tanh",
}
"""Names in ``pointwise.cu``."""

_FROM_OUTPUT = {
    Function.ELU,
    Function.RELU,
    Function.SIGMOID,
    Function.SOFT_RELU,
    Function.SQUARE_ROOT,
    Function.TANH,
}
"""Functions whose gradient is computed from the output; that of others reads the input."""


def pointwise(request: KernelRequest[HasFunction]) -> Kernel | None:
    """Prepare the forward pass."""
    known = request.operator.pointwise()
    return None if known is None else _forward(request, known, _class_of(known))


def pointwise_backward(request: KernelRequest[HasFunction]) -> Kernel | None:
    """Prepare the backward pass."""
    known = request.operator.pointwise()
    return None if known is None else _backward(request, known, _class_of(known))


def leaky_relu(request: KernelRequest[LeakyRelu]) -> Kernel | None:
    """Prepare the forward pass of a function that has a slope below zero."""
    if request.operator.has_slopes:
        return prelu(request)
    known = request.operator.pointwise()
    return None if known is None else _forward(request, known, _CLASSES[known.function])


def leaky_relu_backward(request: KernelRequest[LeakyRelu]) -> Kernel | None:
    """Prepare the backward pass of a function that has a slope below zero."""
    if request.operator.has_slopes:
        return prelu_backward(request)
    known = request.operator.pointwise()
    return None if known is None else _backward(request, known, _CLASSES[known.function])


def _class_of(known: Pointwise) -> str | None:
    if is_relu(known):
        return "KeepingRelu" if known.keeps_nan else "Relu"
    return _CLASSES.get(known.function)


def _forward(request: KernelRequest[object], known: Pointwise, name: str | None) -> Kernel | None:
    data, out = request.inputs[0], request.outputs[0]
    kind = storage_type(*specs_of(request))
    if name is None or kind is None or data is None or out is None:
        return None
    macros = (*element_macros(kind, data), f"FUNCTION={name}")
    size, grid = shape_size(data.shape), grid_of(shape_size(data.shape), data.dtype)

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        compute = function("pointwise.cu", "pointwise", *macros)
        operands = present(arrays.inputs[0]), present(arrays.outputs[0])
        return call(compute, grid, size, *operands, float(known.alpha), float(known.beta))

    return CudaKernel("pointwise", bind, inplace=((0, 0),))


def _backward(request: KernelRequest[object], known: Pointwise, name: str | None) -> Kernel | None:
    data = request.inputs[0]
    kind = storage_type(*specs_of(request))
    if name is None or kind is None or data is None or request.in_grads[0] is None:
        return None
    macros = (*element_macros(kind, data), f"FUNCTION={name}")
    size, grid = shape_size(data.shape), grid_of(shape_size(data.shape), data.dtype)
    from_output = known.function in _FROM_OUTPUT
    reads_nothing = known.function is Function.LINEAR

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        compute = function("pointwise.cu", "pointwise_backward", *macros)
        grad, data_grad = present(arrays.out_grads[0]), present(arrays.in_grads[0])
        if reads_nothing:
            seen = grad  # any array of this size
        else:
            seen = present(arrays.outputs[0] if from_output else arrays.inputs[0])
        return call(
            compute, grid, size, seen, grad, data_grad, float(known.alpha), float(known.beta)
        )

    return CudaKernel(
        "pointwise_backward",
        bind,
        inplace=((0, 0),),
        backward_inputs=() if from_output or reads_nothing else (0,),
        backward_outputs=(0,) if from_output else (),
    )
