"""Diagonals and triangles of stacks of square matrices: read out of them, or made into them."""

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
    """Base: some entries of square matrices (..., n, n), as vectors (..., k)."""

    def input_names(self) -> tuple[str, ...]:
        return ("A",)

    def backward_reads(self) -> Reads:
        return Reads()

    def places(self, xp: Any, size: int) -> tuple[Array, Array]:
        """Return rows and columns of the entries of a matrix, in the vector's order."""
        raise NotImplementedError

    def entries(self, size: int) -> int:
        """How many entries a matrix of so many rows has; ShapeError where there are none."""
        raise NotImplementedError

    def size(self, entries: int) -> int:
        """How many rows a matrix of so many entries has; ShapeError where none has so many."""
        raise NotImplementedError

    def read(self, xp: Any, matrices: Array, vectors: Array) -> None:
        """Write the entries of matrices."""
        rows, columns = self.places(xp, matrices.shape[-1])
        vectors[...] = matrices[..., rows, columns]

    def fill(self, xp: Any, vectors: Array, matrices: Array) -> None:
        """Write matrices that are 0 elsewhere."""
        rows, columns = self.places(xp, matrices.shape[-1])
        matrices.fill(0)
        matrices[..., rows, columns] = vectors


class _Extract(_Entries):
    """Base: reads the entries."""

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
    """Base: makes matrices of the entries."""

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
    offset: int = attribute(0, doc="how far above the main diagonal")

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
    """A diagonal of square matrices (..., n, n): (..., n - |offset|)."""


@register("_linalg_makediag", "linalg_makediag")
class MakeDiagonal(_Make, _Diagonal):
    """Square matrices of 0 with a given diagonal (..., n), ``offset`` above the main one."""


@declares_attributes
class _Triangle(_Entries):
    """The triangle's long side is a diagonal; off the main one its side follows from that."""

    offset: int = attribute(0, doc="where the long side is: how far above the main diagonal")
    lower: bool = attribute(True, doc="which triangle, where offset is 0; else its sign tells")

    def places(self, xp: Any, size: int) -> tuple[Array, Array]:
        """Return rows and columns: a lower triangle's row by row, an upper's column by column."""
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
        side = (math.isqrt(8 * entries + 1) - 1) // 2
        if side * (side + 1) // 2 != entries:
            raise ShapeError(f"A has {entries} elements in a row; no triangle has so many")
        return side + abs(self.offset)


@register("_linalg_extracttrian", "linalg_extracttrian")
class ExtractTriangle(_Extract, _Triangle):
    """A triangle of square matrices (..., n, n) as vectors: (..., k * (k + 1) / 2)."""


@register("_linalg_maketrian", "linalg_maketrian")
class MakeTriangle(_Make, _Triangle):
    """Square matrices of 0 with a given triangle (..., k * (k + 1) / 2)."""
