"""Gradients of the softmax loss layer, and the sum of cross entropies."""

from __future__ import annotations

import numpy as np

from ...capabilities.arrays import SoftmaxOutput
from ...types import Array, Shape, shape_size
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources, TensorSpec
from .kernel import Bind, CudaKernel, element_macros, present, specs_of, storage_type
from .launch import Call, call, divisor, function, grid_of, in_turn
from .rows import Rows

__all__ = ["cross_entropy", "cross_entropy_backward", "softmax_output_backward"]

_SOURCE, _ROWS = "softmax.cu", "ROW=BY_THREAD"
_COUNTING_BLOCKS = 64
_LABELLED = np.dtype(
    [
        ("scale", "<f4"),
        ("ignored", "<f4"),
        ("smoothed", "<f4"),
        ("rest", "<f4"),
        ("ignores", "<i4"),
        ("multiplies", "<i4"),
    ]
)
"""``Labelled`` of ``softmax.cu``."""


def softmax_output_backward(request: KernelRequest[SoftmaxOutput]) -> Kernel | None:
    """Prepare the gradient."""
    out, label = request.outputs[0], request.inputs[1]
    kind = storage_type(out, label, request.in_grads[0])
    if kind is None or out is None or label is None or request.in_grads[0] is None:
        return None
    macros = (*element_macros(kind, out), _ROWS)
    if label.shape == out.shape:
        return _of_distributions(request.operator, out, macros)
    return _of_labels(request.operator, out, shape_size(label.shape), macros)


def _of_distributions(operator: SoftmaxOutput, out: TensorSpec, macros: tuple[str, ...]) -> Kernel:
    size = shape_size(out.shape)
    numbers = float(operator.grad_scale), np.int32(operator.out_grad)

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        operands = (
            present(arrays.outputs[0]),
            present(arrays.inputs[1]),
            present(arrays.in_grads[0]),
        )
        subtract = function(_SOURCE, "distribution_backward", *macros)
        return call(subtract, grid_of(size, out.dtype), size, *operands, *numbers)

    return _gradient(bind)


def _of_labels(
    operator: SoftmaxOutput, out: TensorSpec, labels: int, macros: tuple[str, ...]
) -> Kernel:
    _, classes, inner = _view(operator, out.shape)
    size, counts_valid = shape_size(out.shape), operator.normalization == "valid"
    blocks = min(grid_of(labels), _COUNTING_BLOCKS)
    numbers = _labelled(operator, classes, operator.grad_scale / _divisor(operator, labels, out))
    sizes = (size, divisor(inner), divisor(classes))

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        label, grad = present(arrays.inputs[1]), present(arrays.in_grads[0])
        counts: Array | None = resources.scratchpad if counts_valid else None
        operands = (present(arrays.outputs[0]), label, grad, counts, np.int32(blocks), numbers)
        subtract = function(_SOURCE, "labels_backward", *macros)
        calls = [call(subtract, grid_of(size, out.dtype), *sizes, *operands)]
        if counts_valid:
            count = function(_SOURCE, "count_labels", *macros)
            calls.insert(
                0, call(count, blocks, labels, label, float(operator.ignore_label), counts)
            )
        return in_turn(calls)

    return _gradient(bind, scratchpad_bytes=4 * blocks if counts_valid else 0)


def _gradient(bind: Bind, scratchpad_bytes: int = 0) -> Kernel:
    return CudaKernel(
        "softmax_output_backward",
        bind,
        backward_inputs=(1,),
        backward_outputs=(0,),
        scratchpad_bytes=scratchpad_bytes,
    )


def _view(operator: SoftmaxOutput, shape: Shape) -> Shape:
    """Return the shape as (outer, classes, inner)."""
    if operator.multi_output:
        return (shape[0], shape[1], shape_size(shape[2:]))
    if operator.preserve_shape:
        return (shape_size(shape[:-1]), shape[-1], 1)
    return (shape[0], shape_size(shape[1:]), 1)


def _divisor(operator: SoftmaxOutput, labels: int, out: TensorSpec) -> int:
    """Return what the gradient is divided by, but for the number of valid labels."""
    if operator.normalization == "valid":
        return 1
    outer, _, inner = _view(operator, out.shape)
    if operator.multi_output:
        return outer * inner if operator.normalization == "batch" else inner
    return labels if operator.normalization == "batch" else 1


def _labelled(operator: SoftmaxOutput, classes: int, scale: float) -> Array:
    """Return ``Labelled`` of ``softmax.cu``."""
    smooths = operator.smooth_alpha and not operator.multi_output
    rest = operator.smooth_alpha / (classes - 1) if smooths else 0.0
    smoothed = operator.smooth_alpha + rest if smooths else 0.0
    flags = operator.use_ignore, operator.out_grad
    return np.array((scale, operator.ignore_label, smoothed, rest, *flags), _LABELLED)


def cross_entropy(request: KernelRequest[object]) -> Kernel | None:
    """Prepare the forward pass."""
    data = request.inputs[0]
    kind = storage_type(*specs_of(request))
    if kind is None or data is None:
        return None
    rows = Rows.along(kind, data, 1)

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        losses = present(resources.scratchpad)
        add_up = function(_SOURCE, "cross_entropy_total", *rows.macros)
        return in_turn(
            [
                rows.call(_SOURCE, "cross_entropy", *map(present, arrays.inputs), losses),
                call(add_up, 1, rows.count, losses, present(arrays.outputs[0])),
            ]
        )

    return CudaKernel("softmax_cross_entropy", bind, scratchpad_bytes=4 * rows.count)


def cross_entropy_backward(request: KernelRequest[object]) -> Kernel | None:
    """Prepare the backward pass."""
    data = request.inputs[0]
    kind = storage_type(*specs_of(request))
    if kind is None or data is None or request.in_grads[0] is None:
        return None
    rows = Rows.along(kind, data, 1)

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        operands = (*arrays.inputs, arrays.out_grads[0], arrays.in_grads[0])
        return rows.call(_SOURCE, "cross_entropy_backward", *map(present, operands))

    return CudaKernel(
        "softmax_cross_entropy_backward", bind, backward_inputs=(0, 1), backward_outputs=()
    )
