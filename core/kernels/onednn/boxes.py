"""Copies of boxes (rectangular parts of tensors) between layouts.

They slice tensors and join gradients in their own layouts, without reorders to C order.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ...capabilities.arrays import Concatenation, Slicing, Split
from ...types import Shape
from ..kernel import Kernel, KernelRequest, TensorSpec
from .copies import Copies, End
from .kernel import Operand, are_float32, in_grad, input_, out_grad, output
from .memory import MemoryDesc, alternatives, box_of, channels_last, desc_of
from .primitive import first_available

__all__ = ["concatenation_backward", "parting", "parting_backward", "slicing", "slicing_backward"]

Box = tuple[Shape, Shape]
"""Start and size along each axis."""


def _boxed(operand: Operand, whole: MemoryDesc, box: Box) -> End:
    return End(operand, whole, box_of(whole, *box))


def slicing(request: KernelRequest[Slicing]) -> Kernel | None:
    """Prepare slicing of images in one of oneDNN's layouts."""
    data, out = request.inputs[0], request.outputs[0]
    if not are_float32(request) or data is None or out is None:
        return None
    region = _box(request.operator.region(data.shape, out.shape), data.shape)
    if data.layout is None or region is None or len(data.shape) < 3:
        return None
    target = End(output(), channels_last(out.shape))

    def make(whole: MemoryDesc) -> Kernel:
        return Copies("slice", request, [(_boxed(input_(0), whole, region), target)])

    return first_available(make, alternatives(data))


def slicing_backward(request: KernelRequest[Slicing]) -> Kernel | None:
    """Prepare the gradient of slicing, in one of oneDNN's layouts."""
    data, grad = request.inputs[0], request.out_grads[0]
    if not are_float32(request) or data is None or grad is None:
        return None
    region = _box(request.operator.region(data.shape, grad.shape), data.shape)
    if grad.layout is None or region is None or len(data.shape) < 3:
        return None
    whole = _boxed(in_grad(), channels_last(data.shape), region)
    copy = (End(out_grad(), desc_of(grad)), whole)
    return Copies("slice_backward", request, [copy], cleared=in_grad())


def parting(request: KernelRequest[Split]) -> Kernel | None:
    """Prepare splitting of images, in one of oneDNN's layouts, along an axis."""
    data = request.inputs[0]
    if not are_float32(request) or data is None or data.layout is None:
        return None
    boxes = _parts(request.operator, data)
    if boxes is None:
        return None

    def make(whole: MemoryDesc) -> Kernel:
        copies = [
            (_boxed(input_(0), whole, box), End(output(index), channels_last(box[1])))
            for index, box in enumerate(boxes)
        ]
        return Copies("split", request, copies)

    return first_available(make, alternatives(data))


def parting_backward(request: KernelRequest[Split]) -> Kernel | None:
    """Prepare joining of gradients, some of which are in oneDNN's layouts."""
    data, grads = request.inputs[0], request.out_grads
    if not are_float32(request) or data is None:
        return None
    if all(grad is None or grad.layout is None for grad in grads):
        return None
    boxes = _parts(request.operator, data)
    if boxes is None:
        return None
    whole = channels_last(data.shape)
    copies = [
        (End(out_grad(index), desc_of(grad)), _boxed(in_grad(), whole, box))
        for index, (grad, box) in enumerate(zip(grads, boxes, strict=True))
        if grad is not None
    ]
    return Copies("split_backward", request, copies)


def concatenation_backward(request: KernelRequest[Concatenation]) -> Kernel | None:
    """Prepare splitting of the gradient, in the layouts of the forward pass or with channels
    last."""
    grad = request.out_grads[0]
    shapes = [spec.shape for spec in request.in_grads if spec is not None]
    if not are_float32(request) or grad is None or len(shapes) < len(request.in_grads):
        return None
    axis = request.operator.dim % len(grad.shape)
    ends = [0, *itertools.accumulate(shape[axis] for shape in shapes)]
    starts = [_along(axis, start, len(grad.shape)) for start in ends[:-1]]

    def make(descs: tuple[MemoryDesc, Sequence[MemoryDesc]]) -> Kernel:
        whole, parts = descs
        copies = [
            (_boxed(out_grad(), whole, (start, part.dims)), End(in_grad(index), part))
            for index, (start, part) in enumerate(zip(starts, parts, strict=True))
        ]
        return Copies("concat_backward", request, copies)

    cases: list[tuple[MemoryDesc, Sequence[MemoryDesc]]] = []
    forward = request.forward
    if forward is not None and any(forward.layouts.inputs):
        specs = zip(shapes, forward.layouts.inputs, strict=True)
        parts = [desc_of(TensorSpec(shape, grad.dtype, layout)) for shape, layout in specs]
        (layout,) = forward.layouts.outputs
        cases.append((desc_of(TensorSpec(grad.shape, grad.dtype, layout)), parts))
    if len(grad.shape) > 2 and (cases or grad.layout is not None):
        cases.append((channels_last(grad.shape), [channels_last(shape) for shape in shapes]))
    return first_available(make, cases) if cases else None


def _parts(operator: Split, data: TensorSpec) -> list[Box] | None:
    """Return the boxes along the axis; None if that axis is removed, or the data is not images."""
    rank = len(data.shape)
    if operator.squeeze_axis or rank < 3:
        return None
    axis = operator.axis % rank
    pairs = itertools.pairwise(operator.bounds(data.shape[axis]))
    return [
        (_along(axis, start, rank), (*data.shape[:axis], stop - start, *data.shape[axis + 1 :]))
        for start, stop in pairs
    ]


def _along(axis: int, start: int, rank: int) -> Shape:
    return tuple(start if other == axis else 0 for other in range(rank))


def _box(region: Sequence[slice], data: Shape) -> Box | None:
    """Return slices as a box; None if they have steps other than 1."""
    full = (*region, *(slice(None) for _ in data[len(region) :]))
    bounds = [part.indices(size) for part, size in zip(full, data, strict=True)]
    if any(step != 1 for *_, step in bounds):
        return None
    starts = tuple(start for start, *_ in bounds)
    return starts, tuple(stop - start for start, stop, _ in bounds)
