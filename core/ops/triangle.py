"""Triangles of stacks of square matrices: read out of them, or made into them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from core.errors import ShapeError
from core.ops.attributes import attribute
from core.ops.operator import Operator, Reads, Run
from core.ops.registry import register
from core.types import Array, Shape

__all__ = ["ExtractTriangle", "MakeTriangle"]


class _Triangle(Operator):
    """Base. The triangle's long side is a diagonal; off the main one its side follows from that."""

    offset: int
    lower: bool

    def input_names(self) -> tuple[str, ...]:
        return ("A",)

    def backward_reads(self) -> Reads:
        return Reads()

    def _places(self, xp: Any, size: int) -> tuple[Array, Array]:
        """Return rows and columns: a lower triangle's row by row, an upper's column by column."""
        index = xp.arange(size)
        is_lower = self.lower if self.offset == 0 else self.offset < 0
        # The upper triangle is the lower one of the transposed matrix.
        limit = self.offset if is_lower else -self.offset
        major, minor = xp.nonzero(index[None, :] - index[:, None] <= limit)
        return (major, minor) if is_lower else (minor, major)

    def read(self, xp: Any, matrices: Array, vectors: Array) -> None:
        """Write the triangles of matrices."""
        rows, columns = self._places(xp, matrices.shape[-1])
        vectors[...] = matrices[..., rows, columns]

    def fill(self, xp: Any, vectors: Array, matrices: Array) -> None:
        """Write matrices of 0 but for their triangles."""
        rows, columns = self._places(xp, matrices.shape[-1])
        matrices.fill(0)
        matrices[..., rows, columns] = vectors


@register("_linalg_extracttrian", "linalg_extracttrian")
class ExtractTriangle(_Triangle):
    """A triangle of square matrices (..., n, n) as vectors: (..., k * (k + 1) / 2)."""

    offset: int = attribute(0, doc="where the long side is: how far above the main diagonal")
    lower: bool = attribute(True, doc="which triangle, where offset is 0; else its sign tells")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        a = inputs[0]
        if a is None:
            return inputs, outputs
        if len(a) < 2 or a[-1] != a[-2]:
            raise ShapeError(f"A has shape {a}; expected square matrices")
        side = a[-1] - abs(self.offset)
        if a[-1] and side < 1:
            raise ShapeError(f"offset is {self.offset}; A has {a[-1]} rows and columns")
        length = side * (side + 1) // 2 if a[-1] else 0
        return [a], [self.expect("output", outputs[0], (*a[:-2], length))]

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


@register("_linalg_maketrian", "linalg_maketrian")
class MakeTriangle(_Triangle):
    """Square matrices of 0 with a given triangle (..., k * (k + 1) / 2)."""

    offset: int = attribute(0, doc="where the long side is: how far above the main diagonal")
    lower: bool = attribute(True, doc="which triangle, where offset is 0; else its sign tells")

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        a = inputs[0]
        if a is None:
            return inputs, outputs
        if not a:
            raise ShapeError("A has no dimension; expected at least one")
        side = (math.isqrt(8 * a[-1] + 1) - 1) // 2
        if side * (side + 1) // 2 != a[-1]:
            raise ShapeError(f"A has shape {a}; no triangle has {a[-1]} elements")
        size = side + abs(self.offset) if a[-1] else 0
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
