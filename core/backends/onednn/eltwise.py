"""Functions of one number, element by element in whatever layout arrives."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from ..fused_operators import GATE, Gate
from ..kernels import Kernel, KernelRequest
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
from .primitive import Primitive, first_available

__all__ = [
    "Function",
    "activation",
    "activation_backward",
    "function_of",
    "leaky_relu",
    "leaky_relu_backward",
]


class Function(NamedTuple):
    """A function as oneDNN names it, with its two parameters."""

    algorithm: Algorithm
    alpha: float = 0.0
    beta: float = 0.0

    @property
    def is_linear(self) -> bool:
        """Whether it is ``alpha · data + beta``."""
        return self.algorithm is Algorithm.ELTWISE_LINEAR


_RELU = Function(Algorithm.ELTWISE_RELU)
_SIGMOID = Function(Algorithm.ELTWISE_LOGISTIC)
_TANH = Function(Algorithm.ELTWISE_TANH)

_BY_OPERATOR = {
    "abs": Function(Algorithm.ELTWISE_ABSOLUTE),
    "relu": _RELU,
    "sigmoid": _SIGMOID,
    "sqrt": Function(Algorithm.ELTWISE_ROOT),
    "square": Function(Algorithm.ELTWISE_SQUARE),
    "tanh": _TANH,
}
_BY_ATTRIBUTE = {
    "relu": _RELU,
    "sigmoid": _SIGMOID,
    "softrelu": Function(Algorithm.ELTWISE_SOFT_RELU, 1.0),
    "tanh": _TANH,
}

_FROM_OUTPUT = {
    Algorithm.ELTWISE_RELU: Algorithm.ELTWISE_RELU_FROM_OUTPUT,
    Algorithm.ELTWISE_ELU: Algorithm.ELTWISE_ELU_FROM_OUTPUT,
    Algorithm.ELTWISE_LOGISTIC: Algorithm.ELTWISE_LOGISTIC_FROM_OUTPUT,
    Algorithm.ELTWISE_ROOT: Algorithm.ELTWISE_ROOT_FROM_OUTPUT,
    Algorithm.ELTWISE_TANH: Algorithm.ELTWISE_TANH_FROM_OUTPUT,
}
_FROM_INPUT = frozenset(
    {
        Algorithm.ELTWISE_ABSOLUTE,
        Algorithm.ELTWISE_GELU_ERF,
        Algorithm.ELTWISE_HARD_SIGMOID,
        Algorithm.ELTWISE_HARD_SWISH,
        Algorithm.ELTWISE_SOFT_RELU,
        Algorithm.ELTWISE_SQUARE,
        Algorithm.ELTWISE_SWISH,
    }
)
"""Functions that are differentiated by their output, and by their input."""


def function_of(operator: Any) -> Function | None:
    """Return the function an operator applies; None where oneDNN lacks it.

    ReLU and clip make a number of NaN here. MXNet's ``Activation`` does so, too, but not its
    ``relu`` and ``clip``: these run here only where they are fused into a layer.
    """
    match operator.names[0], getattr(operator, "act_type", None):
        case "Activation", function:
            return _BY_ATTRIBUTE.get(str(function))
        case "LeakyReLU", "leaky":
            return Function(Algorithm.ELTWISE_RELU, operator.slope)
        case "LeakyReLU", "elu":
            return Function(Algorithm.ELTWISE_ELU, operator.slope)
        case "LeakyReLU", "gelu":
            return Function(Algorithm.ELTWISE_GELU_ERF)
        case "clip", _:
            return Function(Algorithm.ELTWISE_CLIP, operator.a_min, operator.a_max)
        case GATE.name, _:
            return _function_of_gate(operator)
        case name, _ if name.endswith("_scalar"):
            return _linear(name, operator.scalar)
        case name, _:
            return _BY_OPERATOR.get(name)


def _linear(name: str, number: float) -> Function | None:
    """Return what a number does to the data as ``alpha · data + beta``."""
    linear = partial(Function, Algorithm.ELTWISE_LINEAR)
    match name:
        case "_mul_scalar":
            return linear(number)
        case "_div_scalar" if number:
            return linear(1 / number)
        case "_plus_scalar":
            return linear(1.0, number)
        case "_minus_scalar":
            return linear(1.0, -number)
        case "_rminus_scalar":
            return linear(-1.0, number)
    return None


def _function_of_gate(gate: Gate) -> Function:
    if not gate.is_hard:
        return Function(Algorithm.ELTWISE_SWISH, 1.0) if gate.multiplies else _SIGMOID
    algorithm = Algorithm.ELTWISE_HARD_SIGMOID
    if gate.multiplies:
        algorithm = Algorithm.ELTWISE_HARD_SWISH
    return Function(algorithm, 1 / gate.width, gate.shift / gate.width)


def activation(request: KernelRequest) -> Kernel | None:
    """Prepare the forward pass."""
    return _activation(request, function_of(request.operator))


def gate(request: KernelRequest, operator: Gate) -> Kernel | None:
    """Prepare the forward pass of a gate."""
    return _activation(request, _function_of_gate(operator))


def _activation(request: KernelRequest, function: Function | None) -> Kernel | None:
    data = request.inputs[0]
    if function is None or not are_float32(request) or data is None:
        return None
    primitive = first_available(partial(_forward, request, function), alternatives(data))
    operands = {Argument.SRC: input_(0), Argument.DST: output()}
    return PrimitiveKernel("activation", request, (primitive, operands))


def activation_backward(request: KernelRequest) -> Kernel | None:
    """Prepare the backward pass, which reads the output, or the input where it must."""
    return _activation_backward(request, function_of(request.operator))


def gate_backward(request: KernelRequest, operator: Gate) -> Kernel | None:
    """Prepare the backward pass of a gate."""
    return _activation_backward(request, _function_of_gate(operator))


def _activation_backward(request: KernelRequest, function: Function | None) -> Kernel | None:
    if function is None or not are_float32(request):
        return None
    if function.is_linear:
        return _linear_backward(request, function)
    if function.algorithm in _FROM_INPUT:
        algorithm, seen, argument = function.algorithm, request.inputs[0], Argument.SRC
        operand = input_(0)
    elif function.algorithm in _FROM_OUTPUT and function.alpha >= 0:
        algorithm, seen = _FROM_OUTPUT[function.algorithm], request.outputs[0]
        argument, operand = Argument.DST, output()
    else:
        return None
    assert seen is not None
    grad = any_layout(seen.shape)

    def make(desc: MemoryDesc) -> Primitive:
        hint = _forward(request, function, desc)
        return Primitive.of("eltwise_backward", algorithm, grad, grad, desc, *function[1:], hint)

    primitive = first_available(make, alternatives(seen))
    operands = {argument: operand, Argument.DIFF_DST: out_grad(), Argument.DIFF_SRC: in_grad()}
    return PrimitiveKernel("activation_backward", request, (primitive, operands))


def _linear_backward(request: KernelRequest, function: Function) -> Kernel | None:
    """Prepare the gradient of a linear function: the same without what it adds."""
    grad = request.out_grads[0]
    if grad is None:
        return None
    slope = Function(function.algorithm, function.alpha)
    primitive = first_available(partial(_forward, request, slope), alternatives(grad))
    operands = {Argument.SRC: out_grad(), Argument.DST: in_grad()}
    return PrimitiveKernel("activation_backward", request, (primitive, operands))


def leaky_relu(request: KernelRequest) -> Kernel | None:
    """Prepare the forward pass of a function that has a slope below zero."""
    return (prelu if request.operator.act_type == "prelu" else activation)(request)


def leaky_relu_backward(request: KernelRequest) -> Kernel | None:
    """Prepare the backward pass of a function that has a slope below zero."""
    is_prelu = request.operator.act_type == "prelu"
    return (prelu_backward if is_prelu else activation_backward)(request)


def _forward(request: KernelRequest, function: Function, desc: MemoryDesc) -> Primitive:
    return Primitive.of(
        "eltwise_forward",
        forward_propagation(request),
        function.algorithm,
        desc,
        desc,
        *function[1:],
    )
