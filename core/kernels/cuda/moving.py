"""Operators that only move elements: concatenation, splitting, slicing, other orders of axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from ...capabilities.arrays import Concatenation, Slicing, Split, Transpose
from ...capabilities.fused import Shuffle
from ...types import Array, Shape, shape_size
from ..kernel import Kernel, KernelArrays, KernelRequest, KernelResources, TensorSpec
from .kernel import CudaKernel, present
from .launch import Call, address, call, divisor, function, grid_of, in_turn
from .places import MAX_AXES, Axes, broadcast_strides, joined_axes, places, strides_of

__all__ = [
    "concatenation",
    "concatenation_backward",
    "parting",
    "parting_backward",
    "repeating",
    "shuffling",
    "shuffling_backward",
    "slicing",
    "slicing_backward",
    "transposition",
    "transposition_backward",
]

_SOURCE = "moving.cu"
_UNITS = {16: "uint4", 8: "Size", 4: "int", 2: "short", 1: "char"}
"""Types by size."""

_TILE, _MAX_TILES_OF_ROWS = 32, 65535
_WIDE = 1 << 31


def _unit_macros(width: int, size: int) -> tuple[str, ...]:
    """Return the macros for units of a width, of which there are so many."""
    macros = (f"UNIT={_UNITS[width]}",)
    return macros if size < _WIDE else (*macros, "WIDE")


def _are_movable(*specs: TensorSpec | None) -> bool:
    """Return whether all tensors are plain, of one dtype, and have elements."""
    found = [spec for spec in specs if spec is not None]
    return (
        len({spec.dtype for spec in found}) == 1
        and found[0].dtype.itemsize in _UNITS
        and all(spec.layout is None and 0 not in spec.shape for spec in found)
    )


# -- concatenation and splitting: rows of a whole tensor, each made of a row of every part ---------


def _rows(
    whole: Array, parts: Sequence[Array | None], lengths: Sequence[int], outer: int, *, joins: bool
) -> Call:
    """Return the copies between a whole and its parts.

    Args:
        whole, parts: the tensors; None for a part that is not wanted.
        lengths: bytes of a row of each part.
        outer: number of rows.
        joins: whether the parts are copied into the whole.
    """
    calls = []
    starts = itertools.accumulate(lengths, initial=0)
    for part, length, start in zip(parts, lengths, starts, strict=False):
        if part is None:
            continue
        base, pitch = address(whole) + start, sum(lengths)
        width = math.gcd(16, length, pitch, base, address(part))
        size = outer * length // width
        copy = function(_SOURCE, "copy_rows", *_unit_macros(width, outer * pitch // width))
        there = whole.reshape(-1).view("uint8")[start:], pitch // width
        here = part, length // width
        ends = (*here, *there) if joins else (*there, *here)
        calls.append(call(copy, grid_of(size), size, divisor(length // width), *ends))
    return in_turn(calls)


def _lengths(shapes: Sequence[Shape], axis: int, itemsize: int) -> list[int]:
    return [shape_size(shape[axis:]) * itemsize for shape in shapes]


def concatenation(request: KernelRequest[Concatenation]) -> Kernel | None:
    """Prepare the forward pass."""
    if not _are_movable(*request.inputs, *request.outputs):
        return None
    shapes = [spec.shape for spec in request.inputs if spec is not None]
    first = request.inputs[0]
    assert first is not None
    axis = request.operator.dim % len(first.shape)
    lengths, outer = _lengths(shapes, axis, first.dtype.itemsize), shape_size(first.shape[:axis])

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        return _rows(present(arrays.outputs[0]), arrays.inputs, lengths, outer, joins=True)

    kernel = CudaKernel("concat", bind)
    if outer == 1:
        kernel.parts = tuple(itertools.accumulate(lengths, initial=0))[:-1]
    return kernel


def concatenation_backward(request: KernelRequest[Concatenation]) -> Kernel | None:
    """Prepare the backward pass."""
    grad = request.out_grads[0]
    if not _are_movable(*request.inputs, *request.out_grads, *request.in_grads) or grad is None:
        return None
    shapes = [spec.shape for spec in request.inputs if spec is not None]
    axis = request.operator.dim % len(grad.shape)
    lengths, outer = _lengths(shapes, axis, grad.dtype.itemsize), shape_size(grad.shape[:axis])

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        return _rows(present(arrays.out_grads[0]), arrays.in_grads, lengths, outer, joins=False)

    return CudaKernel("concat_backward", bind, backward_inputs=(), backward_outputs=())


def parting(request: KernelRequest[Split]) -> Kernel | None:
    """Prepare the forward pass."""
    data = request.inputs[0]
    if not _are_movable(*request.inputs, *request.outputs) or data is None:
        return None
    lengths, outer = _parts_of(request.operator, data)

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        return _rows(present(arrays.inputs[0]), arrays.outputs, lengths, outer, joins=False)

    return CudaKernel("split", bind)


def parting_backward(request: KernelRequest[Split]) -> Kernel | None:
    """Prepare the backward pass."""
    data = request.inputs[0]
    if not _are_movable(*request.inputs, *request.out_grads, *request.in_grads) or data is None:
        return None
    if any(grad is None for grad in request.out_grads):
        return None
    lengths, outer = _parts_of(request.operator, data)

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        return _rows(present(arrays.in_grads[0]), arrays.out_grads, lengths, outer, joins=True)

    return CudaKernel("split_backward", bind, backward_inputs=(), backward_outputs=())


def _parts_of(operator: Split, data: TensorSpec) -> tuple[list[int], int]:
    """Return the bytes of a row of each part, and the number of rows."""
    axis = operator.axis % len(data.shape)
    unit = shape_size(data.shape[axis + 1 :]) * data.dtype.itemsize
    pairs = itertools.pairwise(operator.bounds(data.shape[axis]))
    return [(stop - start) * unit for start, stop in pairs], shape_size(data.shape[:axis])


# -- slices and other orders of axes ---------------------------------------------------------------


def slicing(request: KernelRequest[Slicing]) -> Kernel | None:
    """Prepare the forward pass."""
    data, out = request.inputs[0], request.outputs[0]
    if data is None or out is None or not _are_movable(data, out):
        return None
    axes, start = _region(request.operator, data.shape, out.shape)
    if len(axes) > MAX_AXES:
        return None
    size, macros = shape_size(out.shape), _unit_macros(data.dtype.itemsize, shape_size(data.shape))

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        operands = present(arrays.inputs[0]), present(arrays.outputs[0])
        gather = function(_SOURCE, "gather", *macros)
        return call(gather, grid_of(size), size, *operands, places(axes, start=start))

    return CudaKernel("slice", bind)


def slicing_backward(request: KernelRequest[Slicing]) -> Kernel | None:
    """Prepare the backward pass: zeros, and the gradient in its region."""
    data, grad, target = request.inputs[0], request.out_grads[0], request.in_grads[0]
    if data is None or grad is None or target is None or not _are_movable(grad, target):
        return None
    axes, start = _region(request.operator, data.shape, grad.shape)
    if len(axes) > MAX_AXES:
        return None
    whole, size = shape_size(data.shape), shape_size(grad.shape)
    macros = _unit_macros(grad.dtype.itemsize, whole)

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        dy, dx = present(arrays.out_grads[0]), present(arrays.in_grads[0])
        clear, scatter = (function(_SOURCE, name, *macros) for name in ("clear", "scatter"))
        return in_turn(
            [
                call(clear, grid_of(whole), whole, dx),
                call(scatter, grid_of(size), size, dy, dx, places(axes, start=start)),
            ]
        )

    return CudaKernel("slice_backward", bind, backward_inputs=(), backward_outputs=())


def _region(operator: Slicing, data: Shape, out: Shape) -> tuple[Axes, int]:
    """Return where the elements of a slice lie in the data, and where it begins."""
    region = operator.region(data, out)
    full = (*region, *(slice(None) for _ in data[len(region) :]))
    bounds = [part.indices(size) for part, size in zip(full, data, strict=True)]
    own = strides_of(data)
    start = sum(first * stride for (first, *_), stride in zip(bounds, own, strict=True))
    strides = [step * stride for (*_, step), stride in zip(bounds, own, strict=True)]
    sizes = tuple(len(range(*bound)) for bound in bounds)
    return joined_axes(sizes, strides), start


def repeating(request: KernelRequest[object]) -> Kernel | None:
    """Prepare repetition along axes."""
    data, out = request.inputs[0], request.outputs[0]
    if data is None or out is None or not _are_movable(data, out):
        return None
    return _gathered(
        "repeat", out, joined_axes(out.shape, broadcast_strides(data.shape, out.shape))
    )


def _gathered(name: str, out: TensorSpec, axes: Axes) -> Kernel | None:
    if len(axes) > MAX_AXES:
        return None
    size, macros = shape_size(out.shape), _unit_macros(out.dtype.itemsize, shape_size(out.shape))

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        operands = present(arrays.inputs[0]), present(arrays.outputs[0])
        gather = function(_SOURCE, "gather", *macros)
        return call(gather, grid_of(size), size, *operands, places(axes))

    return CudaKernel(name, bind)


def transposition(request: KernelRequest[Transpose]) -> Kernel | None:
    """Prepare the forward pass."""
    data, out = request.inputs[0], request.outputs[0]
    if data is None or out is None or not _are_movable(data, out):
        return None
    return _permuted(data, request.operator.permutation(len(data.shape)), is_backward=False)


def transposition_backward(request: KernelRequest[Transpose]) -> Kernel | None:
    """Prepare the backward pass: the inverse permutation."""
    grad, target = request.out_grads[0], request.in_grads[0]
    if grad is None or target is None or not _are_movable(grad, target):
        return None
    axes = request.operator.permutation(len(grad.shape))
    inverse = tuple(axes.index(axis) for axis in range(len(axes)))
    return _permuted(grad, inverse, is_backward=True)


def shuffling(request: KernelRequest[Shuffle]) -> Kernel | None:
    """Prepare a channel shuffle."""
    data = request.inputs[0]
    if data is None or not _are_movable(data, request.outputs[0]):
        return None
    return _shuffled(data, request.operator.groups, is_backward=False)


def shuffling_backward(request: KernelRequest[Shuffle]) -> Kernel | None:
    """Prepare the gradient of a channel shuffle."""
    grad, target = request.out_grads[0], request.in_grads[0]
    if grad is None or target is None or not _are_movable(grad, target):
        return None
    return _shuffled(grad, grad.shape[1] // request.operator.groups, is_backward=True)


def _shuffled(data: TensorSpec, rows: int, *, is_backward: bool) -> Kernel | None:
    batch, channels, *space = data.shape
    view = (batch, rows, channels // rows, shape_size(tuple(space)))
    return _permuted(TensorSpec(view, data.dtype), (0, 2, 1, 3), is_backward=is_backward)


def _permuted(data: TensorSpec, order: Shape, *, is_backward: bool) -> Kernel | None:
    """Return the kernel that writes data with its axes in another order."""
    strides = strides_of(data.shape)
    out = tuple(data.shape[axis] for axis in order)
    axes = joined_axes(out, tuple(strides[axis] for axis in order))
    size, macros = shape_size(out), _unit_macros(data.dtype.itemsize, shape_size(out))
    matrices = _matrices(axes)
    if matrices is None and len(axes) > MAX_AXES:
        return None

    def bind(arrays: KernelArrays, resources: KernelResources) -> Call:
        if is_backward:
            operands = present(arrays.out_grads[0]), present(arrays.in_grads[0])
        else:
            operands = present(arrays.inputs[0]), present(arrays.outputs[0])
        if matrices is None:
            gather = function(_SOURCE, "gather", *macros)
            return call(gather, grid_of(size), size, *operands, places(axes))
        count, rows, columns = matrices
        transpose = function(_SOURCE, "transpose", *macros)
        tiles = -(-columns // _TILE)
        grid = (tiles * count, -(-rows // _TILE))
        return call(transpose, grid, *operands, rows, columns, divisor(tiles))

    if is_backward:
        return CudaKernel("transpose_backward", bind, backward_inputs=(), backward_outputs=())
    return CudaKernel("transpose", bind)


def _matrices(axes: Axes) -> tuple[int, int, int] | None:
    """Return number, rows and columns if matrices are transposed, which have tiles worth it."""
    if not 2 <= len(axes) <= 3:
        return None
    (columns, step), (rows, pitch) = axes[-2:]
    count, whole = axes[0] if len(axes) == 3 else (1, rows * columns)
    are_matrices = step == 1 and pitch == columns and whole == rows * columns
    if not are_matrices or min(rows, columns) < _TILE // 4 or rows > _TILE * _MAX_TILES_OF_ROWS:
        return None
    return count, rows, columns
