"""Factorizations of stacks of rectangular matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import ShapeError
from ..types import Array, Shape
from .linalg import computed, transposed
from .operator import Operator, Reads, Run
from .registry import register

__all__ = ["Gelqf"]


@register("_linalg_gelqf", "linalg_gelqf")
class Gelqf(Operator):
    """The LQ factorization ``A = L Q``: Q has orthonormal rows, L is lower triangular.

    A has shape (..., m, n) with m <= n and full rank; Q has the same shape and L is (..., m, m). As
    in MXNet, signs are those of LAPACK's Householder reflections.
    """

    def input_names(self) -> tuple[str, ...]:
        return ("A",)

    def output_names(self) -> tuple[str, ...]:
        return ("output0", "output1")

    def backward_reads(self) -> Reads:
        return Reads(outputs=(0, 1))

    def infer_shape(
        self, inputs: list[Shape | None], outputs: list[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        a = self.expect("A", inputs[0], outputs[0])
        if a is None:
            return inputs, outputs
        if len(a) < 2 or (0 not in a[-2:] and a[-2] > a[-1]):
            raise ShapeError(f"A has shape {a}; expected matrices with no more rows than columns")
        return [a], [a, self.expect("L", outputs[1], (*a[:-1], a[-2]))]

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        # The LQ factorization of A is the transposed QR factorization of its transpose.
        columns, upper = computed(run, "qr", transposed(inputs[0]), self.names[0])
        outputs[0][...] = transposed(columns)
        outputs[1][...] = transposed(upper)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        """Seeger, Hetzel, Dai, Lawrence: Auto-Differentiating Linear Algebra (2017).

        ``dA = L⁻ᵀ (dQ + copyltu(M) Q)`` with ``M = Lᵀ dL - dQ Qᵀ``, where copyltu copies the lower
        triangle of a matrix to the upper one.
        """
        assert in_grads[0] is not None
        xp: Any = run.xp
        rows, lower = outputs
        mixed = transposed(lower) @ out_grads[1] - out_grads[0] @ transposed(rows)
        symmetric = xp.tril(mixed) + transposed(xp.tril(mixed, -1))
        sides = symmetric @ rows
        sides += out_grads[0]
        linear, target, where = run.linear, in_grads[0], {"lower": True, "rightside": False}
        if not linear or not linear.solve_triangular(lower, sides, target, transpose=True, **where):
            target[...] = xp.linalg.solve(transposed(lower), sides)
