"""Broadcasting along axes of length 1: to a shape, along given axes, or like another tensor."""

from __future__ import annotations

from ...types import Shape
from ..kernel import Kernel, KernelRequest
from .kernel import are_float32, in_grad, input_, out_grad, output
from .reduction import StageKernel
from .staged_reduction import Repetitions, Sums, stages_of

__all__ = ["repeated_axes", "repeating", "repeating_backward"]


def repeated_axes(narrow: Shape, wide: Shape) -> Shape:
    """Return the axes along which a tensor is broadcast; missing axes are leading ones."""
    aligned = (1,) * (len(wide) - len(narrow)) + narrow
    return tuple(axis for axis, size in enumerate(wide) if aligned[axis] != size)


def repeating(request: KernelRequest[object]) -> Kernel | None:
    """Prepare the forward pass, unless it is a mere copy or fills with a single number."""
    data, out = request.inputs[0], request.outputs[0]
    if not are_float32(request) or data is None or out is None or set(data.shape) == {1}:
        return None
    stages = stages_of(out.shape, repeated_axes(data.shape, out.shape))
    return StageKernel("repeat", Repetitions(stages), input_(0), output()) if stages else None


def repeating_backward(request: KernelRequest[object]) -> Kernel | None:
    """Prepare the gradient: sums over the broadcast axes."""
    data, grad = request.inputs[0], request.out_grads[0]
    if not are_float32(request) or data is None or grad is None:
        return None
    sums = Sums.over(grad.shape, repeated_axes(data.shape, grad.shape))
    return None if sums is None else StageKernel("repeat_backward", sums, out_grad(), in_grad())
