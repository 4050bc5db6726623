"""Selection of the kernel for gradients of the arithmetic of two tensors."""

from __future__ import annotations

from ...capabilities.arrays import HasArithmetic
from ...capabilities.functions import Arithmetic
from ..kernel import Kernel, KernelRequest
from .product_rule import division_backward, multiplication_backward
from .sum_rule import addition_backward

__all__ = ["arithmetic_backward"]


def arithmetic_backward(request: KernelRequest[HasArithmetic]) -> Kernel | None:
    """Prepare the requested gradients."""
    match request.operator.arithmetic():
        case Arithmetic.ADD:
            return addition_backward(request, sign=1.0)
        case Arithmetic.SUBTRACT:
            return addition_backward(request, sign=-1.0)
        case Arithmetic.MULTIPLY:
            return multiplication_backward(request)
        case Arithmetic.DIVIDE:
            return division_backward(request)
    return None
