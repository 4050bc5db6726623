"""Elementwise functions of one tensor, in any layout."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from ...capabilities.arrays import HasFunction, LeakyRelu
from ...capabilities.functions import Function, Pointwise, is_relu, linear
from ..kernel import Kernel, KernelRequest, KernelUnavailable
from .constants import Algorithm, Argument
from .kernel import (
    PrimitiveKernel,
    are_float32,
    forward_propagation,
    in_grad,
    input_,
    out_grad,
    output,
)
from .memory import MemoryDesc, alternatives, any_layout
from .prelu import prelu, prelu_backward
from .primitive import PostOperation, Primitive, first_available

__all__ = [
    "Eltwise",
    "activation",
    "activation_backward",
    "eltwise",
    "leaky_relu",
    "leaky_relu_backward",
    "post_operation",
]


_ALGORITHMS = {
    Function.ABSOLUTE: Algorithm.ELTWISE_ABSOLUTE,
    Function.CLIP: Algorithm.ELTWISE_CLIP,
    Function.ELU: Algorithm.ELTWISE_ELU,
    Function.GELU: Algorithm.ELTWISE_GELU_ERF,
    Function.HARD_SIGMOID: Algorithm.ELTWISE_HARD_SIGMOID,
    Function.HARD_SWISH: Algorithm.ELTWISE_HARD_SWISH,
    Function.LINEAR: Algorithm.ELTWISE_LINEAR,
    Function.RELU: Algorithm.ELTWISE_RELU,
    Function.SIGMOID: Algorithm.ELTWISE_LOGISTIC,
    Function.SOFT_RELU: Algorithm.ELTWISE_SOFT_RELU,
    Function.SQUARE: Algorithm.ELTWISE_SQUARE,
    Function.SQUARE_ROOT: Algorithm.ELTWISE_ROOT,
    Function.SWISH: Algorithm.ELTWISE_SWISH,
    Function.TANH: Algorithm.ELTWISE_TANH,
}
_FROM_OUTPUT = {
    Function.RELU: Algorithm.ELTWISE_RELU_FROM_OUTPUT,
    Function.ELU: Algorithm.ELTWISE_ELU_FROM_OUTPUT,
    Function.SIGMOID: Algorithm.ELTWISE_LOGISTIC_FROM_OUTPUT,
    Function.SQUARE_ROOT: Algorithm.ELTWISE_ROOT_FROM_OUTPUT,
    Function.TANH: Algorithm.ELTWISE_TANH_FROM_OUTPUT,
}
"""Functions whose gradient reads the output; that of others, except linear ones, reads the
input."""


class Eltwise(NamedTuple):
    """A function in the form of oneDNN's primitives."""

    algorithm: Algorithm
    alpha: float
    beta: float


def eltwise(function: Pointwise) -> Eltwise:
    """Return a function in the form of oneDNN's primitives; raise KernelUnavailable if it has
    none."""
    algorithm = _ALGORITHMS.get(function.function)
    if algorithm is None:
        raise KernelUnavailable(f"oneDNN has no function {function.function.value}")
    return Eltwise(algorithm, function.alpha, function.beta)


def post_operation(activation: HasFunction) -> PostOperation:
    """Return the post-operation for an activation; raise KernelUnavailable if there is none."""
    function = activation.pointwise()
    if function is None:
        raise KernelUnavailable("oneDNN has no function for what follows the layer")
    return ("eltwise", *eltwise(function))


def activation(request: KernelRequest[HasFunction]) -> Kernel | None:
    """Prepare the forward pass."""
    function, data = request.operator.pointwise(), request.inputs[0]
    if function is None or function.function not in _ALGORITHMS:
        return None
    if not are_float32(request) or data is None or _loses_nan(function):
        return None
    primitive = first_available(partial(_forward, request, eltwise(function)), alternatives(data))
    operands = {Argument.SRC: input_(0), Argument.DST: output()}
    return PrimitiveKernel("activation", request, (primitive, operands))


def _loses_nan(function: Pointwise) -> bool:
    """Return whether oneDNN maps NaN to a number where the operator keeps NaN."""
    return function.keeps_nan and (is_relu(function) or function.function is Function.CLIP)


def activation_backward(request: KernelRequest[HasFunction]) -> Kernel | None:
    """Prepare the backward pass, which reads the output if possible, else the input.

    oneDNN's gradients of an absolute value, a clip, and a ReLU that keeps NaN differ from MXNet's
    where the data is NaN, that of a clip at the lower bound as well.
    """
    function = request.operator.pointwise()
    if function is None or function.function not in _ALGORITHMS or not are_float32(request):
        return None
    if function.function is Function.LINEAR:
        return _linear_backward(request, function)
    if _loses_nan(function) or function.function is Function.ABSOLUTE:
        return None
    algorithm = _FROM_OUTPUT.get(function.function)
    if algorithm is None:
        algorithm, _, _ = eltwise(function)
        seen, argument, operand = request.inputs[0], Argument.SRC, input_(0)
    elif function.alpha >= 0:  # with a negative slope the output does not tell the input's sign
        seen, argument, operand = request.outputs[0], Argument.DST, output()
    else:
        return None
    assert seen is not None
    grad = any_layout(seen.shape)

    def make(desc: MemoryDesc) -> Primitive:
        hint = _forward(request, eltwise(function), desc)
        numbers = function.alpha, function.beta
        return Primitive.of("eltwise_backward", algorithm, grad, grad, desc, *numbers, hint)

    primitive = first_available(make, alternatives(seen))
    operands = {argument: operand, Argument.DIFF_DST: out_grad(), Argument.DIFF_SRC: in_grad()}
    return PrimitiveKernel("activation_backward", request, (primitive, operands))


def _linear_backward(request: KernelRequest[object], function: Pointwise) -> Kernel | None:
    """Prepare the gradient of a linear function: the function without its constant term."""
    grad = request.out_grads[0]
    if grad is None:
        return None
    slope = eltwise(linear(function.alpha))
    primitive = first_available(partial(_forward, request, slope), alternatives(grad))
    operands = {Argument.SRC: out_grad(), Argument.DST: in_grad()}
    return PrimitiveKernel("activation_backward", request, (primitive, operands))


def leaky_relu(request: KernelRequest[LeakyRelu]) -> Kernel | None:
    """Prepare the forward pass of a function that has a slope below zero."""
    return prelu(request) if request.operator.has_slopes else activation(request)


def leaky_relu_backward(request: KernelRequest[LeakyRelu]) -> Kernel | None:
    """Prepare the backward pass of a function that has a slope below zero."""
    return prelu_backward(request) if request.operator.has_slopes else activation_backward(request)


def _forward(request: KernelRequest[object], function: Eltwise, desc: MemoryDesc) -> Primitive:
    return Primitive.of(
        "eltwise_forward",
        forward_propagation(request),
        function.algorithm,
        desc,
        desc,
        *function[1:],
    )
