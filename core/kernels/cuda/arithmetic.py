"""Arithmetic of two tensors, equal in shape or broadcast, and repetition along axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...capabilities.arrays import HasArithmetic
from ...capabilities.functions import Arithmetic
from ...types import Array, Shape, shape_size
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources, TensorSpec
from .kernel import CudaKernel, element_macros, present, specs_of, storage_type
from .launch import Call, address, call, function, grid_of, in_turn
from .places import MAX_AXES, broadcast_strides, joined_axes, places
from .reduction import Reduced

__all__ = ["addition", "arithmetic", "arithmetic_backward", "repeating_backward"]

_CLASSES = {
    Arithmetic.ADD: "Add",
    Arithmetic.DIVIDE: "Divide",
    Arithmetic.MULTIPLY: "Multiply",
    Arithmetic.SUBTRACT: "Subtract",
}
"""Names in ``arithmetic.cu``."""

_IS_LINEAR = {Arithmetic.ADD, Arithmetic.SUBTRACT}
_SOURCE = "arithmetic.cu"

_MAX_ADDENDS = 8
_ADDENDS = np.dtype([("at", "<u8", (_MAX_ADDENDS,)), ("count", "<i4"), ("padding", "V4")])
"""``Addends`` of ``arithmetic.cu``."""


def arithmetic(request: KernelRequest[HasArithmetic]) -> Kernel | None:
    """Prepare the forward pass."""
    known, kind = request.operator.arithmetic(), storage_type(*specs_of(request))
    out = request.outputs[0]
    if known is None or kind is None or out is None or len(request.inputs) != 2:
        return None
    left, right = (spec.shape for spec in request.inputs if spec is not None)
    macros, size = (
        (*element_macros(kind, out), f"FUNCTION={_CLASSES[known]}"),
        shape_size(out.shape),
    )
    if left == right:

        def bind_equal(arrays: KernelArrays, resources: KernelResources) -> Call:
            compute = function(_SOURCE, "arithmetic", *macros)
            operands = map(present, (*arrays.inputs, arrays.outputs[0]))
            return call(compute, grid_of(size, out.dtype), size, *operands)

        return CudaKernel("arithmetic", bind_equal, inplace=((0, 0), (1, 0)))
    found = _places(out.shape, left, right)
    if found is None:
        return None

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        compute = function(_SOURCE, "arithmetic_broadcast", *macros)
        operands = map(present, (*arrays.inputs, arrays.outputs[0]))
        return call(compute, grid_of(size), size, *operands, *found)

    return CudaKernel("arithmetic", bind)


def addition(request: KernelRequest[object]) -> Kernel | None:
    """Prepare the sum of several arrays, added in order."""
    out, kind = request.outputs[0], storage_type(*specs_of(request))
    if kind is None or out is None or len(request.inputs) > _MAX_ADDENDS:
        return None
    macros, size = (*element_macros(kind, out), "FUNCTION=Add"), shape_size(out.shape)

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        addends = np.zeros(1, _ADDENDS)
        addresses = [address(present(one)) for one in arrays.inputs]
        addends["at"][0, : len(addresses)], addends["count"] = addresses, len(addresses)
        add = function(_SOURCE, "add_all", *macros)
        return call(add, grid_of(size), size, addends, present(arrays.outputs[0]))

    return CudaKernel("add", bind, inplace=((0, 0),))


def _places(wide: Shape, left: Shape, right: Shape) -> tuple[Array, Array] | None:
    """Return where both operands' elements lie; None if there are too many axes."""
    strides = broadcast_strides(left, wide), broadcast_strides(right, wide)
    axes = joined_axes(wide, *strides)
    return None if len(axes) > MAX_AXES else (places(axes, 0), places(axes, 1))


def arithmetic_backward(request: KernelRequest[HasArithmetic]) -> Kernel | None:
    """Prepare the requested gradients; at most one operand may be broadcast."""
    known, kind = request.operator.arithmetic(), storage_type(*specs_of(request))
    left, right = request.inputs
    grad = request.out_grads[0]
    if known is None or kind is None or grad is None or left is None or right is None:
        return None
    if left.shape == right.shape:
        return _equal_backward(request, known, kind, grad)
    return _broadcast_backward(request, known, kind, grad)


def _equal_backward(
    request: KernelRequest[Any], known: Arithmetic, kind: str, grad: TensorSpec
) -> Kernel:
    macros = (*element_macros(kind, grad), f"FUNCTION={_CLASSES[known]}")
    size = shape_size(grad.shape)
    reads = _reads(known, request)

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        dy = present(arrays.out_grads[0])
        seen = [dy if one is None else one for one in arrays.inputs]
        # The left gradient may share the head gradient's memory, so it is written last.
        calls = [
            call(
                function(_SOURCE, name, *macros),
                grid_of(size, grad.dtype),
                size,
                dy,
                *seen,
                present(target),
            )
            for name, target in (
                ("arithmetic_right", arrays.in_grads[1]),
                ("arithmetic_left", arrays.in_grads[0]),
            )
            if target is not None
        ]
        return in_turn(calls)

    return CudaKernel(
        "arithmetic_backward",
        bind,
        inplace=((0, 0),),
        backward_inputs=reads,
        backward_outputs=(),
    )


def _reads(known: Arithmetic, request: KernelRequest[Any]) -> tuple[int, ...]:
    """Return the inputs that the requested gradients depend on."""
    left, right = (spec is not None for spec in request.in_grads)
    if known in _IS_LINEAR:
        return ()
    if known is Arithmetic.MULTIPLY:
        return tuple(index for index, wanted in ((0, right), (1, left)) if wanted)
    return (0, 1) if right else (1,)


def _broadcast_backward(
    request: KernelRequest[Any], known: Arithmetic, kind: str, grad: TensorSpec
) -> Kernel | None:
    specs = [spec for spec in request.inputs if spec is not None]
    wide = 0 if specs[0].shape == grad.shape else 1
    narrow = 1 - wide
    found = _places(grad.shape, *(spec.shape for spec in specs))
    if specs[wide].shape != grad.shape or found is None:
        return None
    reduced = Reduced.of(kind, grad, _repeated_axes(specs[narrow].shape, grad.shape))
    if reduced is None:
        return None
    macros = (*element_macros(kind, grad), f"FUNCTION={_CLASSES[known]}")
    size = shape_size(grad.shape)

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        dy, calls = present(arrays.out_grads[0]), []
        target = arrays.in_grads[narrow]
        if target is not None:
            sums = _sums_of(known, narrow, arrays)
            calls.append(reduced.forward(dy, target, resources.scratchpad, **sums))
        target = arrays.in_grads[wide]
        if target is not None:
            seen = [dy if one is None else one for one in arrays.inputs]
            # For an operand that is not needed stands the gradient, which has enough elements.
            compute = function(_SOURCE, "arithmetic_wide", *macros)
            of_left = np.int32(wide == 0)
            calls.append(call(compute, grid_of(size), size, dy, *seen, target, *found, of_left))
        return in_turn(calls)

    return CudaKernel(
        "arithmetic_backward",
        bind,
        backward_inputs=_reads(known, request),
        backward_outputs=(),
        scratchpad_bytes=reduced.scratchpad_bytes,
    )


def _sums_of(known: Arithmetic, narrow: int, arrays: KernelArrays) -> dict[str, Any]:
    """Return what ``Reduced.forward`` reduces to the gradient of the operand that is broadcast."""
    other = arrays.inputs[1 - narrow]
    match known:
        case Arithmetic.MULTIPLY:
            return {"term": "PRODUCT", "other": other}
        case Arithmetic.DIVIDE if narrow:
            return {"term": "PRODUCT", "other": other, "squared": arrays.inputs[1]}
        case Arithmetic.DIVIDE:
            return {"term": "QUOTIENT", "other": other}
        case Arithmetic.SUBTRACT if narrow:
            return {"factor": -1.0}
    return {}


def _repeated_axes(narrow: Shape, wide: Shape) -> Shape:
    """Return the axes along which a tensor is broadcast; missing axes are leading ones."""
    aligned = (1,) * (len(wide) - len(narrow)) + narrow
    return tuple(axis for axis, size in enumerate(wide) if aligned[axis] != size)


def repeating_backward(request: KernelRequest[object]) -> Kernel | None:
    """Prepare the gradient of a tensor that is broadcast: sums over its copies."""
    grad, target = request.out_grads[0], request.in_grads[0]
    kind = storage_type(grad, target)
    if kind is None or grad is None or target is None:
        return None
    reduced = Reduced.of(kind, grad, _repeated_axes(target.shape, grad.shape))
    if reduced is None:
        return None

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        operands = present(arrays.out_grads[0]), present(arrays.in_grads[0])
        return reduced.forward(*operands, resources.scratchpad)

    return CudaKernel(
        "repeating_backward",
        bind,
        backward_inputs=(),
        backward_outputs=(),
        scratchpad_bytes=reduced.scratchpad_bytes,
    )
