"""The Cholesky factorization of stacks of symmetric matrices."""

from __future__ import annotations

from collections.abc import Sequence

from ..types import Array
from .attributes import attribute
from .linalg import Square, computed, inverse_of, transposed
from .operator import Reads, Run
from .registry import register

__all__ = ["Potrf", "Potri"]


@register("_linalg_potrf", "linalg_potrf")
class Potrf(Square):
    """The Cholesky factor of a symmetric, positive-definite A.

    It is the lower triangular L with ``L Lᵀ = A``, or the upper triangular U with ``Uᵀ U = A``.
    """

    lower: bool = attribute(True, doc="return the lower triangular factor, otherwise the upper one")

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        a = inputs[0] if self.lower else transposed(inputs[0])
        factor = computed(run, "cholesky", a, self.names[0])
        outputs[0][...] = factor if self.lower else transposed(factor)

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        assert in_grads[0] is not None
        xp, lower, grad = run.xp, outputs[0], out_grads[0]
        if not self.lower:
            lower, grad = transposed(lower), transposed(grad)
        # dA = L⁻ᵀ copyltu(Lᵀ dL) L⁻¹ / 2, where copyltu copies the lower triangle to the upper one
        # (Seeger et al., arXiv:1710.08717).
        half = xp.tril(transposed(lower) @ xp.tril(grad))
        symmetric = half + transposed(xp.tril(half, -1))
        symmetric *= 0.5
        self._between_inverses(run, outputs[0], symmetric, in_grads[0])

    def _between_inverses(self, run: Run, factor: Array, middle: Array, out: Array) -> None:
        """Write ``L⁻ᵀ middle L⁻¹``, L being the lower triangular factor."""
        linear, where = run.linear, {"lower": self.lower}
        solve = None if linear is None else linear.solve_triangular
        if (
            solve is None
            or not solve(factor, middle, out, transpose=self.lower, rightside=False, **where)
            or not solve(factor, out, out, transpose=not self.lower, rightside=True, **where)
        ):
            inverse = inverse_of(run, transposed(factor, not self.lower), self.names[0])
            out[...] = transposed(inverse) @ middle @ inverse


@register("_linalg_potri", "linalg_potri")
class Potri(Square):
    """The inverse of ``A Aᵀ`` for a lower triangular A, or of ``Aᵀ A`` for an upper triangular one.

    The other triangle of A is not read.
    """

    lower: bool = attribute(True, doc="A is lower triangular, otherwise upper")

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0,), outputs=(0,))

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        inverse = inverse_of(run, self._factor(run, inputs[0]), self.names[0])
        outputs[0][...] = transposed(inverse) @ inverse

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        assert in_grads[0] is not None
        # B = (L Lᵀ)⁻¹ has dL = -B (dB + dBᵀ) B L.
        grad = out_grads[0] + transposed(out_grads[0])
        of_factor = -(outputs[0] @ grad @ outputs[0] @ self._factor(run, inputs[0]))
        in_grads[0][...] = run.xp.tril(of_factor)
        if not self.lower:
            in_grads[0][...] = transposed(run.xp.tril(of_factor))

    def _factor(self, run: Run, a: Array) -> Array:
        """Return A, or its transpose if it is upper triangular: a lower triangular factor."""
        return run.xp.tril(a if self.lower else transposed(a))
