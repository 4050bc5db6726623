"""Stochastic gradient descent and its relatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..kernels import optimizer_steps as steps
from ..ndarray import NDArray
from ..ops.update_rules import move_weight, nag, sign_step, signum
from ..random import device_random
from ..types import Array
from .base import register
from .rule import Piece, RuleOptimizer

__all__ = ["DCASGD", "NAG", "SGD", "SGLD", "MomentumOptimizer", "Signum", "ccSGD"]


class MomentumOptimizer(RuleOptimizer):
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
        """Update one weight, or several of one dtype given as lists; ``update`` is called alike.

        With float32 copies a sparse gradient updates every row, lazy or not, as MXNet's
        ``mp_sgd_update`` does, which knows dense arrays only.
        """
        is_list = isinstance(index, (list, tuple))
        if self._keeps_master_copy(weight[0] if is_list else weight):
            # The base class has the copy first.
            if is_list:
                grad = [one.tostype("default") for one in grad]
                state = [(master, inner) for inner, master in state]
            else:
                grad, state = grad.tostype("default"), state[::-1]
        super().update_multi_precision(index, weight, grad, state)


@register
class SGD(MomentumOptimizer):
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
        move_weight(self.prepare(piece, wd), piece.states, lr=lr, momentum=self.momentum)

    def fused_step(self, lr: float, wd: float, count: int) -> steps.FusedStep:
        rule = steps.Momentum(lr, self.momentum) if self.momentum else steps.SGD(lr)
        return self.fuse(rule, wd)


@register
class ccSGD(SGD):
    """Another name of ``SGD``, kept as MXNet keeps it."""


@register
class NAG(MomentumOptimizer):
    """Nesterov's accelerated gradient (MXNet ``nag_mom_update``).

    g = clip(rescale_grad * grad) + wd * weight
    change = momentum * (momentum * state - lr * g) - lr * g
    weight = weight + change
    state = momentum * state - lr * g - lr * wd * change

    The last term is MXNet's: its state decays the weight that has been updated already.
    """

    def rule(self, piece: Piece, lr: float, wd: float, count: int) -> None:
        step = self.prepare(piece, wd)
        if piece.states:
            nag(step, piece.states, lr=lr, momentum=self.momentum, late_wd=wd)
        else:
            move_weight(step, (), lr=lr)

    def fused_step(self, lr: float, wd: float, count: int) -> steps.FusedStep:
        rule = steps.NAG(lr, self.momentum, wd) if self.momentum else steps.SGD(lr)
        return self.fuse(rule, wd)


@register
class Signum(RuleOptimizer):
    """SGD by the signs of the momentum (Bernstein et al., arXiv:1802.04434).

    MXNet's ``signum_update``, and ``signsgd_update`` without momentum.

        g = clip(rescale_grad * grad) + wd * weight
        state = momentum * state - (1 - momentum) * g
        weight = (1 - lr * wd_lh) * weight + lr * sign(state)

    Without momentum the gradient's own sign counts, and the decay is decoupled:

        weight = (1 - lr * wd) * weight - lr * sign(grad)

    Args:
        momentum: factor on the previous state; 0 keeps no state.
        wd_lh: decoupled weight decay (Loshchilov and Hutter, arXiv:1711.05101), with momentum.
    """

    def __init__(
        self,
        learning_rate: float = 0.01,
        momentum: float = 0.9,
        wd_lh: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum = momentum
        self.wd_lh = wd_lh

    def state_count(self) -> int:
        return 1 if self.momentum else 0

    def rule(self, piece: Piece, lr: float, wd: float, count: int) -> None:
        step = self.prepare(piece, wd)
        if piece.states:
            signum(step, piece.states, lr=lr, momentum=self.momentum, wd_lh=self.wd_lh)
        else:
            sign_step(step, piece.grad, -lr, 1 - lr * wd)

    def fused_step(self, lr: float, wd: float, count: int) -> steps.FusedStep | None:
        if not self.momentum:
            return None
        return self.fuse(steps.Signum(lr, self.momentum, 1 - lr * self.wd_lh), wd)


@register
class DCASGD(RuleOptimizer):
    """SGD that compensates for a delayed gradient (Zheng et al., arXiv:1609.08326).

        g = clip(rescale_grad * grad)
        step = lr * (g + wd * weight + lamda * g^2 * (weight - previous))
        state = momentum * state - step
        previous = weight
        weight = weight + state

    MXNet's own refuses every update that has a momentum.

    Args:
        momentum: factor on the previous step; 0 keeps only the previous weight.
        lamda: factor on the compensation.
    """

    def __init__(self, momentum: float = 0.0, lamda: float = 0.04, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.lamda = lamda

    def state_count(self) -> int:
        return 2 if self.momentum else 1

    def start_states(self, weight: Array, states: Sequence[Array]) -> None:
        states[-1][...] = weight

    def pack_states(self, states: Sequence[NDArray]) -> Any:
        """Return (momentum or None, previous weight)."""
        return tuple(states) if self.momentum else (None, *states)

    def rule(self, piece: Piece, lr: float, wd: float, count: int) -> None:
        xp, other = piece.xp, piece.scratch[1]
        *momentum, previous = piece.states
        step = self.prepare(piece, 0.0)
        gradient = step.gradient
        xp.subtract(piece.weight, previous, out=other)
        other *= gradient
        other *= gradient
        other *= self.lamda
        previous[...] = piece.weight
        gradient += other
        # After the compensation, which squares the gradient without the decay.
        if wd:
            xp.multiply(piece.weight, wd, out=other)
            gradient += other
        move_weight(step, momentum, lr=lr, momentum=self.momentum)


@register
class SGLD(RuleOptimizer):
    """Stochastic gradient Langevin dynamics (Patterson and Teh, NIPS 2013).

        g = clip(rescale_grad * grad)
        weight = weight - lr / 2 * (g + wd * weight) + normal(0, lr)

    The noise has the variance lr: in time the weights are samples of the posterior whose negative
    logarithm the loss is.
    """

    whole_parameters = True  # so that no random numbers are spent on padding between parameters

    def state_count(self) -> int:
        return 0

    def rule(self, piece: Piece, lr: float, wd: float, count: int) -> None:
        noise = piece.scratch[1]
        move_weight(self.prepare(piece, wd), (), lr=lr / 2)
        device_random(piece.context).normal(noise, scale=math.sqrt(lr))
        piece.weight += noise
