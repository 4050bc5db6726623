"""Activation functions, element by element in whatever layout arrives."""

from __future__ import annotations

from core.backends.kernels import Kernel, KernelRequest
from core.backends.onednn.constants import Algorithm, Argument
from core.backends.onednn.kernel import (
    PrimitiveKernel,
    are_float32,
    forward_propagation,
    in_grad,
    input_,
    out_grad,
    output,
)
from core.backends.onednn.memory import any_layout, desc_of
from core.backends.onednn.primitive import Primitive

__all__ = ["FUNCTIONS", "activation", "activation_backward"]

FUNCTIONS = {
    "relu": (Algorithm.ELTWISE_RELU, 0.0),
    "sigmoid": (Algorithm.ELTWISE_LOGISTIC, 0.0),
    "softrelu": (Algorithm.ELTWISE_SOFT_RELU, 1.0),
    "tanh": (Algorithm.ELTWISE_TANH, 0.0),
}
"""Algorithm and its parameter alpha by ``act_type``."""

_FROM_OUTPUT = {
    "relu": Algorithm.ELTWISE_RELU_FROM_OUTPUT,
    "sigmoid": Algorithm.ELTWISE_LOGISTIC_FROM_OUTPUT,
    "tanh": Algorithm.ELTWISE_TANH_FROM_OUTPUT,
}


def activation(request: KernelRequest) -> Kernel | None:
    """Prepare the forward pass."""
    function = request.operator.act_type
    if function not in FUNCTIONS or not are_float32(request):
        return None
    data = request.inputs[0]
    assert data is not None
    desc = desc_of(data)
    algorithm, alpha = FUNCTIONS[function]
    primitive = Primitive.of(
        "eltwise_forward", forward_propagation(request), algorithm, desc, desc, alpha, 0.0
    )
    operands = {Argument.SRC: input_(0), Argument.DST: output()}
    return PrimitiveKernel("activation", request, (primitive, operands))


def activation_backward(request: KernelRequest) -> Kernel | None:
    """Prepare the backward pass, which reads the output."""
    function = request.operator.act_type
    if function not in _FROM_OUTPUT or not are_float32(request):
        return None
    out = request.outputs[0]
    assert out is not None
    desc = desc_of(out)
    algorithm, alpha = FUNCTIONS[function]
    hint = Primitive.of(
        "eltwise_forward", forward_propagation(request), algorithm, desc, desc, alpha, 0.0
    )
    grad = any_layout(out.shape)
    primitive = Primitive.of(
        "eltwise_backward", _FROM_OUTPUT[function], grad, grad, desc, alpha, 0.0, hint
    )
    operands = {
        Argument.DST: output(),
        Argument.DIFF_DST: out_grad(),
        Argument.DIFF_SRC: in_grad(),
    }
    return PrimitiveKernel("activation_backward", request, (primitive, operands))
