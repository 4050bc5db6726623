"""Operators that the compiler inserts between the steps of the graph's own operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..capabilities.arrays import ARITHMETIC, CAST
from ..capabilities.functions import Arithmetic
from ..capabilities.kinds import implements
from ..ops import Operator, Run
from ..ops.rows import Rows
from ..types import Array

__all__ = [
    "Accumulate",
    "ConcatInPlace",
    "Copy",
    "KeepRows",
    "Primitive",
    "Reorder",
    "SumRows",
    "ToDense",
    "Zeros",
]


class Primitive(Operator):
    """Base of these operators, which are hidden from monitors.

    Compared by identity, because they have no attributes to compare.
    """

    __eq__ = object.__eq__
    __hash__ = object.__hash__


class Zeros(Primitive):
    """Write zeros: the gradient of a value on which no result depends."""

    names = ("_plan_zeros",)

    def input_names(self) -> tuple[str, ...]:
        return ()

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        outputs[0][...] = 0


@implements(CAST)
class Copy(Primitive):
    """Copy the input, to another dtype where the output has one."""

    names = ("_plan_copy",)

    def is_elementwise(self) -> bool:
        return True

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        run.xp.copyto(outputs[0], inputs[0])


@implements(ARITHMETIC)
class Accumulate(Primitive):
    """Add two contributions to a gradient."""

    names = ("_plan_accumulate",)

    def arithmetic(self) -> Arithmetic | None:
        return Arithmetic.ADD

    def input_names(self) -> tuple[str, ...]:
        return ("sum", "contribution")

    def is_elementwise(self) -> bool:
        return True

    def inplace_forward(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0), (1, 0))

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        run.xp.add(inputs[0], inputs[1], out=outputs[0])


class Reorder(Primitive):
    """Copy a tensor into another layout. It has no reference: the layout's backend runs it."""

    names = ("_plan_reorder",)


class ConcatInPlace(Primitive):
    """A concatenation whose inputs are written straight into its output.

    Nothing is left to compute: the step only marks that the inputs are read and the output is
    complete.
    """

    names = ("_plan_joined",)


class ToDense(Primitive):
    """Copy a sparse value to a dense one."""

    names = ("_plan_to_dense",)

    def passes_gradient(self) -> tuple[tuple[int, int], ...]:
        return ((0, 0),)

    def forward(self, run: Run, inputs: Sequence[Any], outputs: Sequence[Array]) -> None:
        run.xp.copyto(outputs[0], inputs[0].dense(run.xp))


class SumRows(Primitive):
    """Add two contributions to a gradient that is kept as rows."""

    names = ("_plan_sum_rows",)

    def input_names(self) -> tuple[str, ...]:
        return ("sum", "contribution")

    def forward(self, run: Run, inputs: Sequence[Rows], outputs: Sequence[Rows]) -> None:
        outputs[0].clear()  # of the last run
        for rows in inputs:
            if rows.indices is not None:
                outputs[0].add_ordered(run.xp, rows.indices, rows.values)


class KeepRows(Primitive):
    """Add a gradient to one that is kept as rows; of a dense gradient only the nonzero rows."""

    names = ("_plan_keep_rows",)

    def forward(self, run: Run, inputs: Sequence[Any], outputs: Sequence[Rows]) -> None:
        xp, given = run.xp, inputs[0]
        if not isinstance(given, Rows):
            indices = xp.flatnonzero((given != 0).reshape(given.shape[0], -1).any(axis=1))
            outputs[0].add_ordered(xp, indices, given[indices])
            return
        if given.indices is not None:
            outputs[0].add_ordered(xp, given.indices, given.values)
