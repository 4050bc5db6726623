"""Diagonals of stacks of matrices: read out of them, or made into them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.errors import ShapeError
from core.ops.attributes import attribute
from core.ops.operator import Operator, Reads, Run
from core.ops.registry import register
from core.types import Array, Shape

__all__ = ["ExtractDiagonal", "MakeDiagonal"]


def _places(xp: Any, length: int, offset: int) -> tuple[Array, Array]:
    """Return rows and columns of a diagonal, ``offset`` above the main one."""
    index = xp.arange(length)
    return index + max(0, -offset), index + max(0, offset)


class _Diagonal(Operator):
    offset: int

    def input_names(self) -> tuple[str, ...]:
        return ("A",)

    def backward_reads(self) -> Reads:
        return Reads()

    def read(self, xp: Any, matrices: Array, vectors: Array) -> None:
        """Write the diagonals of matrices."""
        rows, columns = _places(xp, vectors.shape[-1], self.offset)
        vectors[...] = matrices[..., rows, columns]

    def fill(self, xp: Any, vectors: Array, matrices: Array) -> None:
        """Write matrices of 0 but for their diagonals."""
        rows, columns = _places(xp, vectors.shape[-1], self.offset)
        matrices.fill(0)
        matrices[..., rows, columns] = vectors


@register("_linalg_extractdiag", "linalg_extractdiag")
class ExtractDiagonal(_Diagonal):
    """A diagonal of square matrices (..., n, n): (..., n - |offset|)."""

    offset: int = attribute(0, doc="how far above the main diagonal")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        a = inputs[0]
        if a is None:
            return inputs, outputs
        if len(a) < 2 or a[-1] != a[-2]:
            raise ShapeError(f"A has shape {a}; expected square matrices")
        length = a[-1] - abs(self.offset)
        if a[-1] and length < 1:
            raise ShapeError(f"offset is {self.offset}; A has {a[-1]} rows and columns")
        return [a], [self.expect("output", outputs[0], (*a[:-2], length if a[-1] else 0))]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self.read(run.xp, inputs[0], outputs[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        assert in_grads[0] is not None
        self.fill(run.xp, out_grads[0], in_grads[0])


@register("_linalg_makediag", "linalg_makediag")
class MakeDiagonal(_Diagonal):
    """Square matrices of 0 with a given diagonal (..., n), ``offset`` above the main one."""

    offset: int = attribute(0, doc="how far above the main diagonal")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        a = inputs[0]
        if a is None:
            return inputs, outputs
        if not a:
            raise ShapeError("A has no dimension; expected at least one")
        size = a[-1] + abs(self.offset) if a[-1] else 0
        return [a], [self.expect("output", outputs[0], (*a[:-1], size, size))]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self.fill(run.xp, inputs[0], outputs[0])

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        assert in_grads[0] is not None
        self.read(run.xp, out_grads[0], in_grads[0])
