"""Operators that select elements by a condition or from a diagonal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..errors import ShapeError
from ..types import Array, DType, Shape, normalize_axis
from .attributes import attribute
from .masking import choose, keep
from .operator import Operator, Reads, Run
from .registry import register

__all__ = ["Diag", "Where"]


@register("where", "_sparse_where")
class Where(Operator):
    """Select ``x`` where the condition is not 0, else ``y``.

    The condition has the shape of ``x``, or is a vector with one element for each row of it.
    """

    def input_names(self) -> tuple[str, ...]:
        return ("condition", "x", "y")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        common = self.expect("y", inputs[2], self.expect("x", inputs[1], outputs[0]))
        condition = inputs[0]
        if common is not None and condition is not None:
            of_rows = len(condition) == 1 and len(common) != 1
            condition = self.expect("condition", condition, common[:1] if of_rows else common)
        return [condition, common, common], [common]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        common = self.expect_dtype("y", inputs[2], self.expect_dtype("x", inputs[1], outputs[0]))
        return [inputs[0], common, common], [common]

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0,))

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return (1, 2)

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((2, 0),)

    def _mask(self, run: Run, condition: Array, rank: int, chosen: bool) -> Array:
        mask = run.scratch(condition.shape, "bool")
        compare = run.xp.not_equal if chosen else run.xp.equal
        compare(condition, 0, out=mask)
        return mask.reshape(mask.shape + (1,) * (rank - mask.ndim))

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        condition, x, y = inputs
        choose(run, self._mask(run, condition, x.ndim, chosen=True), x, y, outputs[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        dy = out_grads[0]
        for target, chosen in zip(in_grads[1:], (True, False), strict=True):
            if target is not None:
                keep(run, self._mask(run, inputs[0], dy.ndim, chosen), dy, target)


@register("diag")
class Diag(Operator):
    """The diagonal of two axes as a new last axis; for a vector, the matrix with this diagonal.

    ``k`` is the diagonal's distance above the main one.
    """

    monitors_data: ClassVar[bool] = True

    k: int = attribute(default=0, doc="index of the diagonal; negative below the main one")
    axis1: int = attribute(default=0, doc="the axis of rows")
    axis2: int = attribute(default=1, doc="the axis of columns")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        data = inputs[0]
        if data is None:
            return inputs, outputs
        if len(data) == 1:
            size = data[0] and data[0] + abs(self.k)
            return inputs, [self.expect("output", outputs[0], (size, size))]
        rows, columns = self._axes(len(data))
        others = tuple(dim for i, dim in enumerate(data) if i not in (rows, columns))
        length = self._length(data[rows], data[columns]) if data[rows] and data[columns] else 0
        return inputs, [self.expect("output", outputs[0], (*others, length))]

    def _axes(self, rank: int) -> tuple[int, int]:
        rows, columns = normalize_axis(self.axis1, rank), normalize_axis(self.axis2, rank)
        if rows == columns:
            raise ShapeError(f"axis1 {self.axis1} and axis2 {self.axis2} are the same axis")
        return rows, columns

    def _length(self, rows: int, columns: int) -> int:
        length = min(rows + min(self.k, 0), columns - max(self.k, 0))
        if length < 1:
            raise ShapeError(f"k {self.k} is outside a matrix of {rows} rows, {columns} columns")
        return length

    def backward_reads(self) -> Reads:
        return Reads()

    def _view(self, xp: Any, array: Array) -> Array:
        """Return the diagonal as a view that can be written."""
        rows, columns = self._axes(array.ndim)
        length = self._length(array.shape[rows], array.shape[columns])
        start = [slice(None)] * array.ndim
        start[rows] = slice(max(-self.k, 0), None)
        start[columns] = slice(max(self.k, 0), None)
        others = [i for i in range(array.ndim) if i not in (rows, columns)]
        return xp.lib.stride_tricks.as_strided(
            array[tuple(start)],
            shape=(*(array.shape[i] for i in others), length),
            # A step along the diagonal is one along the rows and one along the columns.
            strides=(
                *(array.strides[i] for i in others),
                array.strides[rows] + array.strides[columns],
            ),
        )

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        x, y = inputs[0], outputs[0]
        if x.ndim == 1:
            y.fill(0)
            run.xp.copyto(self._view(run.xp, y), x)
        else:
            run.xp.copyto(y, self._view(run.xp, x))

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        dy, dx = out_grads[0], in_grads[0]
        assert dx is not None
        if dx.ndim == 1:
            run.xp.copyto(dx, self._view(run.xp, dy))
        else:
            dx.fill(0)
            run.xp.copyto(self._view(run.xp, dx), dy)
