"""Operators that sort: ``topk``, ``sort`` and ``argsort``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..capabilities import arrays as kinds
from ..capabilities.kinds import implements
from ..errors import ShapeError
from ..types import Array, DType, Shape, merge_dtypes, merge_shapes, normalize_axis, shape_size
from .attributes import attribute
from .lookup import axis_positions, write_at
from .operator import Operator, Reads, Run
from .registry import register

__all__ = ["Argsort", "Sort", "TopK"]

_FLOAT32 = np.dtype("float32")
_INT32 = np.dtype("int32")
_PLACE = 0xFFFFFFFF
"""Mask of the lower half of a 64-bit key, which holds the element's position."""
_MOST_KEYS = _PLACE + 1
"""The number of positions that fit into it."""
_MANY_TIMES = 8
"""Partitioning before sorting pays if there are this many times as many elements as wanted."""


def sorting_order(run: Run, data: Array, axis: int, ascending: bool) -> Array:
    """Return the indices that sort the data along an axis; equal elements keep their order."""
    if data.dtype == _FLOAT32 and data.ndim and data.shape[axis] <= _MOST_KEYS:
        return run.xp.sort(_keys(run.xp, data, axis, ascending), axis=axis).view("int64") & _PLACE
    if ascending:
        return run.xp.argsort(data, axis=axis, kind="stable")
    # Sorting the reversed data and reversing the result keeps the order of equal elements.
    order = run.xp.argsort(run.xp.flip(data, axis), axis=axis, kind="stable")
    return data.shape[axis] - 1 - run.xp.flip(order, axis)


def _keys(xp: Any, data: Array, axis: int, ascending: bool) -> Array:
    """Return integers with the same order as the elements, with ties broken by position.

    The lower halves are the positions. Sorting such keys is far faster than a stable ``argsort``.
    """
    # The bit patterns of positive floats have the same order as the floats, those of negative
    # floats the opposite order. Adding 0 turns -0 into 0, so that both are equal.
    bits = xp.ascontiguousarray(data + _FLOAT32.type(0)).view("uint32")
    bits ^= (bits >> 31) * xp.uint32(0x7FFFFFFF) | xp.uint32(0x80000000)
    # NaN of either sign is the largest, as for a sort of NumPy.
    bits[xp.isnan(data)] = 0xFFFFFFFF
    keys = (bits if ascending else ~bits).astype("uint64") << 32
    shape = [1] * data.ndim
    shape[axis] = -1
    keys |= xp.arange(data.shape[axis], dtype="uint64").reshape(shape)
    return keys


def leading_order(run: Run, data: Array, axis: int, ascending: bool, count: int) -> Array:
    """Return the first ``count`` indices of the order that sorts the data along an axis.

    If ``count`` is small, a partition selects these elements before they are sorted.
    """
    if count * _MANY_TIMES >= data.shape[axis] or (data.dtype.kind == "f" and _has_nan(run, data)):
        return _head(sorting_order(run, data, axis, ascending), axis, count)
    xp, rows = run.xp, run.xp.moveaxis(data, axis, -1)
    place = count - 1 if ascending else rows.shape[-1] - count
    last = xp.partition(rows, place, axis=-1)[..., place : place + 1]
    chosen = xp.flatnonzero(rows <= last if ascending else rows >= last)
    if chosen.size != count * (rows.size // rows.shape[-1]):
        # Ties with the last wanted element: only a stable sort selects the first of them.
        return _head(sorting_order(run, data, axis, ascending), axis, count)
    chosen = (chosen % rows.shape[-1]).reshape(*rows.shape[:-1], count)
    order = sorting_order(run, xp.take_along_axis(rows, chosen, -1), -1, ascending)
    return xp.moveaxis(xp.take_along_axis(chosen, order, -1), -1, axis)


def _has_nan(run: Run, data: Array) -> bool:
    """Return whether the data has NaN, which comparisons cannot order."""
    return bool(run.xp.isnan(data).any())


def _flat_where_none(data: Array, axis: int | None) -> tuple[Array, int]:
    """Return the data and the axis to sort along; without an axis, the flattened data."""
    return (data.reshape(-1), 0) if axis is None else (data, normalize_axis(axis, data.ndim))


def _shape_where_none(data: Shape, axis: int | None) -> tuple[Shape, int]:
    return ((shape_size(data),), 0) if axis is None else (data, normalize_axis(axis, len(data)))


def _head(array: Array, axis: int, length: int) -> Array:
    return array[(slice(None),) * axis + (slice(length),)]


def _write_gradient(run: Run, dy: Array, indices: Array, gradient: Array, axis: int | None) -> None:
    """Scatter the gradient of sorted elements to their original positions."""
    shape, place = _shape_where_none(gradient.shape, axis)
    whole = run.scratch(indices.shape, "int64")
    run.xp.copyto(whole, indices, casting="unsafe")
    write_at(run, gradient, axis_positions(run, whole, shape, place), dy)


@register("topk", "_npx_topk")
@implements(kinds.TOP_K)
class TopK(Operator):
    """The k largest (or smallest) elements along an axis, in order.

    ``ret_typ`` selects what is returned: their ``indices``, their ``value``, ``both``, or a
    ``mask`` of the data's shape that is 1 at their positions.
    """

    axis: int | None = attribute(default=-1, doc="the axis; None to flatten the data")
    k: int = attribute(default=1, minimum=0, doc="number of elements; 0 for all")
    ret_typ: str = attribute(
        default="indices", choices=("value", "indices", "mask", "both"), doc="what is returned"
    )
    is_ascend: bool = attribute(default=False, doc="return the smallest elements")
    dtype: DType = attribute(default=_FLOAT32, doc="dtype of indices")

    @property
    def _has_values(self) -> bool:
        return self.ret_typ in ("value", "both")

    def output_names(self) -> tuple[str, ...]:
        return ("output0", "output1") if self._has_values else ("output",)

    def visible_outputs(self) -> int:
        return 2 if self.ret_typ == "both" else 1

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        if self.ret_typ == "mask":
            return inputs, [self.expect("output", outputs[0], data)]
        shape, axis = _shape_where_none(data, self.axis)
        length = shape[axis]
        if length and self.k > length:
            raise ShapeError(f"k {self.k} is larger than the {length} elements of axis {self.axis}")
        chosen = (*shape[:axis], self.k or length, *shape[axis + 1 :])
        return inputs, [self.expect("output", output, chosen) for output in outputs]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        data = inputs[0]
        if self.ret_typ == "indices":
            return [data], [self.expect_dtype("output", outputs[0], self.dtype)]
        data = merge_dtypes(data, outputs[0])
        if self.ret_typ == "mask":
            return [data], [data]
        return [data], [data, self.expect_dtype("output1", outputs[1], self.dtype)]

    def backward_reads(self) -> Reads:
        return Reads(outputs=(1,)) if self._has_values else Reads(out_grads=False)

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return (0,) if self._has_values else ()

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data, axis = _flat_where_none(inputs[0], self.axis)
        count = self.k or data.shape[axis]
        chosen = leading_order(run, data, axis, self.is_ascend, count)
        if self.ret_typ == "mask":
            mask = outputs[0].reshape(data.shape)
            ones = run.scratch(chosen.shape, mask.dtype)
            ones.fill(1)
            write_at(run, mask, axis_positions(run, chosen, data.shape, axis), ones)
            return
        if self._has_values:
            run.xp.copyto(outputs[0], run.xp.take_along_axis(data, chosen, axis))
        run.xp.copyto(outputs[-1], chosen, casting="unsafe")

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        _write_gradient(run, out_grads[0], outputs[1], in_grads[0], self.axis)


@register("sort", "_npi_sort")
class Sort(Operator):
    """Sort the elements along an axis, or all elements as a vector; NaN is the largest.

    A hidden second output holds their original indices, int32.
    """

    axis: int | None = attribute(default=-1, doc="the axis; None to flatten the data")
    is_ascend: bool = attribute(default=True, doc="smallest first")

    def output_names(self) -> tuple[str, ...]:
        return ("output0", "output1")

    def visible_outputs(self) -> int:
        return 1

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if self.axis is None:
            if data is None:
                return inputs, outputs
            flat = (shape_size(data),)
            return inputs, [self.expect("output", output, flat) for output in outputs]
        common = merge_shapes(data, outputs[0])
        if common is not None:
            normalize_axis(self.axis, len(common))
        return [common], [common, common]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        common = merge_dtypes(inputs[0], outputs[0])
        return [common], [common, _INT32]

    def backward_reads(self) -> Reads:
        return Reads(outputs=(1,))

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data, axis = _flat_where_none(inputs[0], self.axis)
        order = sorting_order(run, data, axis, self.is_ascend)
        run.xp.copyto(outputs[0], run.xp.take_along_axis(data, order, axis))
        run.xp.copyto(outputs[1], order, casting="unsafe")

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        _write_gradient(run, out_grads[0], outputs[1], in_grads[0], self.axis)


@register("argsort", "_npi_argsort")
class Argsort(Operator):
    """The indices that sort the elements along an axis, or all elements as a vector.

    They are of ``dtype``, in MXNet float32 by default. Equal elements keep their order; NaN is the
    largest.
    """

    axis: int | None = attribute(default=-1, doc="the axis; None to flatten the data")
    is_ascend: bool = attribute(default=True, doc="smallest first")
    dtype: DType = attribute(default=_FLOAT32, doc="dtype of the indices")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        shape, _ = _shape_where_none(data, self.axis)
        return inputs, [self.expect("output", outputs[0], shape)]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        return inputs, [self.expect_dtype("output", outputs[0], self.dtype)]

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        data, axis = _flat_where_none(inputs[0], self.axis)
        order = sorting_order(run, data, axis, self.is_ascend)
        run.xp.copyto(outputs[0], order, casting="unsafe")
