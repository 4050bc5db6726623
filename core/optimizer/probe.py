"""The optimizer that MXNet's own tests use."""

from __future__ import annotations

from .base import register
from .rule import Piece, RuleOptimizer

__all__ = ["Test"]


@register
class Test(RuleOptimizer):
    """``weight += rescale_grad * grad``, with a copy of the weight as the state."""

    __test__ = False  # pytest, this is not a test class.

    def state_count(self) -> int:
        return 1

    def rule(self, piece: Piece, lr: float, wd: float, count: int) -> None:
        step = piece.scratch[0]
        piece.xp.multiply(piece.grad, self.rescale_grad, out=step)
        piece.weight += step
        piece.states[0][...] = piece.weight
