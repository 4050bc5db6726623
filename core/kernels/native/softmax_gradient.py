"""The gradient of the softmax loss layer."""

from __future__ import annotations

from ...capabilities.arrays import SoftmaxOutput
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources
from ..onednn.loss import LossRows
from .call import NativeCall
from .library import library, loaded, pointer
from .structures import SoftmaxGradient

__all__ = ["softmax_output_backward"]


class _SoftmaxOutputBackward(Kernel):
    """Probabilities minus one for the label, each row times its factor."""

    name = "native:softmax_output_backward"
    backward_inputs = (1,)
    backward_outputs = (0,)
    inplace = ()
    uses_scratch = False

    def __init__(self, operator: SoftmaxOutput, rows: LossRows) -> None:
        self._operator, self._rows = operator, rows

    def bind(self, arrays: KernelArrays, resources: KernelResources) -> NativeCall:
        """Return a call that writes the gradient."""
        *sizes, scale = self._rows
        operands = (arrays.outputs[0], arrays.inputs[1], arrays.in_grads[0])
        parameters = SoftmaxGradient(
            *sizes,
            *(pointer(operand) for operand in operands),
            scale,
            self._operator.ignore_label,
            self._operator.use_ignore,
            self._operator.normalization == "valid",
        )
        return NativeCall.of(loaded().softmax_gradient, parameters)


def softmax_output_backward(request: KernelRequest[SoftmaxOutput]) -> Kernel | None:
    """Prepare the gradient for labels that are class indices."""
    rows = None if library() is None else LossRows.of(request)
    return None if rows is None else _SoftmaxOutputBackward(request.operator, rows)
