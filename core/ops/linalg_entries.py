"""Diagonals and triangles of stacks of square matrices: extracting them, and making matrices of
them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..errors import ShapeError
from ..types import Array, Shape
from .attributes import attribute
from .operator import Operator, Reads, Run
from .registry import declares_attributes, register

__all__ = ["ExtractDiagonal", "ExtractTriangle", "MakeDiagonal", "MakeTriangle"]


class _Entries(Operator):
    """Base: a subset of the entries of square matrices (..., n, n), as vectors (..., k)."""

    def input_names(self) -> tuple[str, ...]:
        return ("A",)

    def backward_reads(self) -> Reads:
        return Reads()

    def places(self, xp: Any, size: int) -> tuple[Array, Array]:
        """Return the rows and the columns of the entries, in the vector's order."""
        raise NotImplementedError

    def entries(self, size: int) -> int:
        """Return the number of entries for a matrix size; raise ShapeError if there are none."""
        raise NotImplementedError

    def size(self, entries: int) -> int:
        """Return the matrix size for a number of entries; raise ShapeError if there is none."""
        raise NotImplementedError

    def read(self, xp: Any, matrices: Array, vectors: Array) -> None:
        """Write the entries of matrices into vectors."""
        rows, columns = self.places(xp, matrices.shape[-1])
        vectors[...] = matrices[..., rows, columns]

    def fill(self, xp: Any, vectors: Array, matrices: Array) -> None:
        """Write matrices with these entries and 0 elsewhere."""
        rows, columns = self.places(xp, matrices.shape[-1])
        matrices.fill(0)
        matrices[..., rows, columns] = vectors


class _Extract(_Entries):
    """Base: extracts the entries."""

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        a = inputs[0]
        if a is None:
            return inputs, outputs
        if len(a) < 2 or a[-1] != a[-2]:
            raise ShapeError(f"A has shape {a}; expected square matrices")
        length = self.entries(a[-1]) if a[-1] else 0
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


class _Make(_Entries):
    """Base: makes matrices from the entries."""

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        a = inputs[0]
        if a is None:
            return inputs, outputs
        if not a:
            raise ShapeError("A has no dimension; expected at least one")
        size = self.size(a[-1]) if a[-1] else 0
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


@declares_attributes
class _Diagonal(_Entries):
    offset: int = attribute(0, doc="distance of the diagonal above the main one")

    def places(self, xp: Any, size: int) -> tuple[Array, Array]:
        index = xp.arange(size - abs(self.offset))
        return index + max(0, -self.offset), index + max(0, self.offset)

    def entries(self, size: int) -> int:
        if size <= abs(self.offset):
            raise ShapeError(f"offset is {self.offset}; A has {size} rows and columns")
        return size - abs(self.offset)

    def size(self, entries: int) -> int:
        return entries + abs(self.offset)


@register("_linalg_extractdiag", "linalg_extractdiag")
class ExtractDiagonal(_Extract, _Diagonal):
    """Extract a diagonal of square matrices (..., n, n): (..., n - |offset|)."""


@register("_linalg_makediag", "linalg_makediag")
class MakeDiagonal(_Make, _Diagonal):
    """Square matrices that are 0 except for a diagonal (..., n), ``offset`` above the main one."""


@declares_attributes
class _Triangle(_Entries):
    """Base: a triangle bounded by a diagonal. Unless this is the main one, the triangle is on its
    outer side."""

    offset: int = attribute(0, doc="distance of the bounding diagonal above the main one")
    lower: bool = attribute(
        True, doc="which triangle if offset is 0; otherwise the sign of offset decides"
    )

    def places(self, xp: Any, size: int) -> tuple[Array, Array]:
        """Return the rows and the columns of the entries: row by row for a lower triangle, column
        by column for an upper one."""
        index = xp.arange(size)
        is_lower = self.lower if self.offset == 0 else self.offset < 0
        # The upper triangle is the lower one of the transposed matrix.
        limit = self.offset if is_lower else -self.offset
        major, minor = xp.nonzero(index[None, :] - index[:, None] <= limit)
        return (major, minor) if is_lower else (minor, major)

    def entries(self, size: int) -> int:
        side = size - abs(self.offset)
        if side < 1:
            raise ShapeError(f"offset is {self.offset}; A has {size} rows and columns")
        return side * (side + 1) // 2

    def size(self, entries: int) -> int:
        # The positive solution of side * (side + 1) / 2 = entries.
        side = (math.isqrt(8 * entries + 1) - 1) // 2
        if side * (side + 1) // 2 != entries:
            raise ShapeError(
                f"A has {entries} elements along the last axis; no triangle has that many"
            )
        return side + abs(self.offset)


@register("_linalg_extracttrian", "linalg_extracttrian")
class ExtractTriangle(_Extract, _Triangle):
    """Extract a triangle of square matrices (..., n, n) as vectors (..., k * (k + 1) / 2)."""


@register("_linalg_maketrian", "linalg_maketrian")
class MakeTriangle(_Make, _Triangle):
    """Square matrices that are 0 except for a triangle (..., k * (k + 1) / 2)."""
