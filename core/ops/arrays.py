"""Operators on many arrays at once, for training: norms, checks for inf and NaN, zeros."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..types import Array, DType, Shape
from .attributes import attribute
from .operator import Operator, Reads, Run
from .registry import register

__all__ = ["AllFinite", "MultiAllFinite", "MultiSumSquares", "ResetArrays"]

_FLOAT32 = np.dtype("float32")


class _Arrays(Operator):
    """Base: arrays of any shapes in, float32 numbers out; nothing has a gradient."""

    # In a float32 copy, a number that overflows half precision would still be finite.
    may_widen = False
    num_arrays: int

    def input_names(self) -> tuple[str, ...]:
        return tuple(f"array_{number}" for number in range(self.num_arrays))

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)

    def output_shape(self) -> Shape:
        """Return the shape of the output."""
        return (1,)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        return inputs, [self.expect("output", outputs[0], self.output_shape())]

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        return inputs, [self.expect_dtype("output", outputs[0], _FLOAT32)]


@register("multi_sum_sq")
class MultiSumSquares(_Arrays):
    """The sums of the squares of arrays of any shapes: float32 (num_arrays,).

    Squares are rounded to their array's dtype; sums are float32.
    """

    variadic = "num_arrays"

    num_arrays: int = attribute(minimum=1, doc="number of arrays")

    def output_shape(self) -> Shape:
        return (self.num_arrays,)

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        for number, array in enumerate(inputs):
            # MXNet computes x * x in the dtype of x and adds it up in float32.
            squares = run.scratch(array.shape, array.dtype)
            run.xp.multiply(array, array, out=squares)
            outputs[0][number] = squares.sum(dtype=_FLOAT32)


class _Finite(_Arrays):
    """Base: 1 if all elements are finite, else 0."""

    init_output: bool

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        if self.init_output:
            outputs[0][...] = 1
        for array in inputs:
            outputs[0][...] *= run.xp.isfinite(array).all()


@register("all_finite")
class AllFinite(_Finite):
    """1 if all elements of an array are finite, else 0: float32 (1,)."""

    init_output: bool = attribute(True, doc="False: what out= holds already counts, too")

    def input_names(self) -> tuple[str, ...]:
        return ("data",)


@register("multi_all_finite")
class MultiAllFinite(_Finite):
    """1 if all elements of ``num_arrays`` arrays are finite, else 0: float32 (1,)."""

    variadic = "num_arrays"

    num_arrays: int = attribute(1, minimum=1, doc="number of arrays")
    init_output: bool = attribute(True, doc="False: what out= holds already counts, too")


@register("reset_arrays")
class ResetArrays(_Arrays):
    """Fill ``num_arrays`` arrays of any shapes with zeros, in place; there is no output."""

    variadic = "num_arrays"

    num_arrays: int = attribute(minimum=1, doc="number of arrays")

    def auxiliary_names(self) -> tuple[str, ...]:
        # Written in place, so a plan must treat them as states.
        return self.input_names()

    def output_names(self) -> tuple[str, ...]:
        return ()

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        return inputs, []

    def infer_type(
        self, inputs: list[DType | None], outputs: list[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        return inputs, []

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        for array in inputs:
            array.fill(0)
