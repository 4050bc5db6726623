"""Stochastic gradient descent and its relatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from core.ndarray import NDArray
from core.optimizer.base import register
from core.optimizer.elementwise import ElementwiseOptimizer, Piece

__all__ = ["NAG", "SGD", "ccSGD"]


class _MomentumOptimizer(ElementwiseOptimizer):
    """A momentum array per parameter where momentum is used; float32 copies come second."""

    def __init__(self, momentum: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum

    def state_count(self) -> int:
        return 1 if self.momentum else 0

    def create_state_multi_precision(self, index: Any, weight: NDArray) -> Any:
        """Return the state; with a float32 copy the order is (state, copy), as MXNet's."""
        if not self._keeps_master_copy(weight):
            return super().create_state_multi_precision(index, weight)
        master = weight.astype(np.float32)
        return (self.create_state(index, master), master)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update one weight, or each of several given as lists."""
        if isinstance(index, (list, tuple)):
            for one in zip(index, weight, grad, state, strict=True):
                self.update_multi_precision(*one)
        elif self._keeps_master_copy(weight):
            inner, master = state
            self.update(index, master, grad.astype(np.float32), inner)
            weight[:] = master
        else:
            self.update(index, weight, grad, state)


@register
class SGD(_MomentumOptimizer):
    """SGD with momentum and weight decay (MXNet ``sgd_update``, ``sgd_mom_update``).

        g = clip(rescale_grad * grad) + wd * weight
        state = momentum * state - lr * g
        weight = weight + state

    Args:
        momentum: factor on the previous step; 0 keeps no state.
        lazy_update: update only the rows present in a row_sparse gradient.
    """

    def __init__(self, momentum: float = 0.0, lazy_update: bool = True, **kwargs: Any) -> None:
        super().__init__(momentum=momentum, **kwargs)
        self.lazy_update = lazy_update

    def rule(self, piece: Piece, lr: float, wd: float, count: int) -> None:
        step = self.prepare(piece, wd)
        step *= lr
        if piece.states:
            (momentum,) = piece.states
            momentum *= self.momentum
            momentum -= step
            piece.weight += momentum
        else:
            piece.weight -= step


@register
class ccSGD(SGD):
    """Another name of ``SGD``, kept as MXNet keeps it."""


@register
class NAG(_MomentumOptimizer):
    """Nesterov's accelerated gradient (MXNet ``nag_mom_update``).

    g = clip(rescale_grad * grad) + wd * weight
    change = momentum * (momentum * state - lr * g) - lr * g
    weight = weight + change
    state = momentum * state - lr * g - lr * wd * change

    The last term is MXNet's: its state decays the weight that has been updated already.
    """

    def rule(self, piece: Piece, lr: float, wd: float, count: int) -> None:
        step = self.prepare(piece, wd)
        step *= lr
        if not piece.states:
            piece.weight -= step
            return
        (momentum,) = piece.states
        momentum *= self.momentum
        momentum -= step
        change = piece.scratch[1]
        piece.xp.multiply(momentum, self.momentum, out=change)
        change -= step
        piece.weight += change
        if wd:
            change *= lr * wd
            momentum -= change
