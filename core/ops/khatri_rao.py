"""The column-wise Kronecker product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from ..errors import ShapeError
from ..types import Array, Shape
from .attributes import attribute
from .operator import Operator, Reads, Run
from .registry import register

__all__ = ["KhatriRao"]


@register("khatri_rao")
class KhatriRao(Operator):
    """From matrices (m, k), (n, k), ... compute (m * n * ..., k): each column is the Kronecker
    product of the inputs' columns."""

    variadic: ClassVar[str | None] = "num_args"

    num_args: int = attribute(minimum=1, doc="number of matrices")

    def input_names(self) -> tuple[str, ...]:
        return tuple(f"arg{number}" for number in range(self.num_args))

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        known = [shape for shape in inputs if shape is not None]
        for shape in known:
            if len(shape) != 2:
                raise ShapeError(f"khatri_rao takes matrices; got one of shape {shape}")
        columns = {shape[1] for shape in known if shape[1]}
        if len(columns) > 1:
            raise ShapeError(f"the matrices have {sorted(columns)} columns; expected one number")
        if len(known) < len(inputs):
            return inputs, outputs
        width = columns.pop() if columns else 0
        rows = math.prod(shape[0] for shape in known)
        completed: list[Shape | None] = [(shape[0], width) for shape in known]
        return completed, [self.expect("output", outputs[0], (rows, width))]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        product = inputs[0]
        for matrix in inputs[1:]:
            product = (product[:, None] * matrix).reshape(-1, matrix.shape[1])
        run.xp.copyto(outputs[0], product)
