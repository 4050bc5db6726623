"""What the operators on boxes share."""

from __future__ import annotations

from ..operator import Operator, Reads

__all__ = ["WithoutGradient"]


class WithoutGradient(Operator):
    """An operator through which no gradient flows: its inputs get zeros, as in MXNet."""

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()
