"""Base class of the operators on boxes."""

from __future__ import annotations

from ..operator import Operator, Reads

__all__ = ["WithoutGradient"]


class WithoutGradient(Operator):
    """An operator that does not propagate gradients: its inputs get zeros, as in MXNet."""

    def backward_reads(self) -> Reads:
        return Reads(out_grads=False)

    def gradient_inputs(self, count: int) -> tuple[int, ...]:
        return ()
