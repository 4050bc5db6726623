"""The Cholesky factor of symmetric matrices, which lie in the last two axes."""

from __future__ import annotations

from collections.abc import Sequence

from ..types import Array
from .attributes import attribute
from .linalg import Square, computed, inverse_of, turned
from .operator import Reads, Run
from .registry import register

__all__ = ["Potrf", "Potri"]


@register("_linalg_potrf", "linalg_potrf")
class Potrf(Square):
    """The triangular factor of a symmetric, positive A (Cholesky).

    That is the lower L with ``L Lᵀ = A``, or the upper U with ``Uᵀ U = A``.
    """

    lower: bool = attribute(True, doc="give the lower triangular factor, else the upper")

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        a = inputs[0] if self.lower else turned(inputs[0])
        factor = computed(run, "cholesky", a, self.names[0])
        outputs[0][...] = factor if self.lower else turned(factor)

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
            lower, grad = turned(lower), turned(grad)
        inverse = inverse_of(run, lower, self.names[0])
        half = xp.tril(turned(lower) @ xp.tril(grad))
        symmetric = half + turned(xp.tril(half, -1))
        in_grads[0][...] = 0.5 * (turned(inverse) @ symmetric @ inverse)


@register("_linalg_potri", "linalg_potri")
class Potri(Square):
    """The inverse of ``A Aᵀ`` for a lower triangular A, of ``Aᵀ A`` for an upper triangular one.

    The rest of A is not read.
    """

    lower: bool = attribute(True, doc="A is lower triangular, else upper")

    def backward_reads(self) -> Reads:
        return Reads(inputs=(0,), outputs=(0,))

    def forward(self, run: Run, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        inverse = inverse_of(run, self._factor(run, inputs[0]), self.names[0])
        outputs[0][...] = turned(inverse) @ inverse

    def backward(
        self,
        run: Run,
        out_grads: Sequence[Array],
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        in_grads: Sequence[Array | None],
    ) -> None:
        assert in_grads[0] is not None
        grad = out_grads[0] + turned(out_grads[0])
        of_factor = -(outputs[0] @ grad @ outputs[0] @ self._factor(run, inputs[0]))
        in_grads[0][...] = run.xp.tril(of_factor)
        if not self.lower:
            in_grads[0][...] = turned(run.xp.tril(of_factor))

    def _factor(self, run: Run, a: Array) -> Array:
        """Return the lower triangular factor that A stands for."""
        return run.xp.tril(a if self.lower else turned(a))
