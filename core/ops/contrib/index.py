"""Indices of elements, and rows written by index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...errors import ShapeError
from ...types import Array, DType, Shape, normalize_axis
from ..attributes import attribute
from ..operator import Operator, Reads, Run
from ..registry import register

__all__ = ["IndexArray", "IndexCopy"]

_INT64 = np.dtype("int64")


@register("_contrib_index_array")
class IndexArray(Operator):
    """The index of each element along every axis: (...) gives int64 (..., axes)."""

    names_outputs: ClassVar[bool] = True

    axes: Shape | None = attribute(None, doc="axes whose indices are returned; None for all")

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)

    def _axes(self, ndim: int) -> tuple[int, ...]:
        axes = range(ndim) if self.axes is None else self.axes
        return tuple(normalize_axis(axis, ndim) for axis in axes)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        return inputs, [self.expect("output", outputs[0], (*data, len(self._axes(len(data)))))]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        return inputs, [self.expect_dtype("output", outputs[0], _INT64)]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        shape = inputs[0].shape
        for place, axis in enumerate(self._axes(len(shape))):
            along = (shape[axis], *(1,) * (len(shape) - axis - 1))
            outputs[0][..., place] = run.xp.arange(shape[axis]).reshape(along)


@register("_contrib_index_copy")
class IndexCopy(Operator):
    """``old_tensor`` (n, ...) with the rows listed in ``index_vector`` (k,) replaced by those of
    ``new_tensor`` (k, ...)."""

    def input_names(self) -> tuple[str, ...]:
        return ("old_tensor", "index_vector", "new_tensor")

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return (0, 2)

    def backward_reads(self) -> Reads:
        return Reads(inputs=(1,))

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        old, index, new = inputs
        common = self.expect("output", outputs[0], old)
        if index is not None and len(index) != 1:
            raise ShapeError(f"index_vector has shape {index}; expected one axis")
        if common is not None and index is not None:
            new = self.expect("new_tensor", new, (*index, *common[1:]))
        return [common, index, new], [common]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        common = self.expect_dtype("new_tensor", inputs[2], inputs[0])
        common = self.expect_dtype("output", outputs[0], common)
        return [common, inputs[1], common], [common]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        old, index, new = inputs
        run.xp.copyto(outputs[0], old)
        outputs[0][index.astype(_INT64)] = new

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        rows = inputs[1].astype(_INT64)
        old_grad, _, new_grad = in_grads
        if old_grad is not None:
            run.xp.copyto(old_grad, out_grads[0])
            old_grad[rows] = 0
        if new_grad is not None:
            new_grad[...] = out_grads[0][rows]
