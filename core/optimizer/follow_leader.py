"""Optimizers that follow the (moving) leader: FTRL and FTML.

Both solve for the weight from scratch at every step, with a term divided by the learning rate. At a
rate of 0, where MXNet makes the weights NaN, they change nothing.
"""

from __future__ import annotations

from typing import Any

from ..kernels.optimizer_steps import FTRL, FusedStep
from ..ndarray import NDArray
from ..ops.update_rules import ftml, ftrl
from .base import register
from .rule import Piece, RuleOptimizer

__all__ = ["FTML", "Ftrl"]


@register
class Ftrl(RuleOptimizer):
    """Follow the regularized leader, proximal (McMahan et al., KDD 2013; MXNet ``ftrl_update``).

        g = clip(rescale_grad * grad)
        z += g - (sqrt(n + g^2) - sqrt(n)) * weight / lr
        n += g^2
        weight = (sign(z) * lamda1 - z) / ((beta + sqrt(n)) / lr + wd) where |z| > lamda1, else 0

    Args:
        lamda1: L1 penalty; small weights become 0.
        beta: keeps the first steps small.
    """

    def __init__(
        self,
        lamda1: float = 0.01,
        learning_rate: float = 0.1,
        beta: float = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        # Not through the base: as in MXNet, a scheduler keeps its own base_lr.
        self.lr = learning_rate
        self.lamda1 = lamda1
        self.beta = beta

    def state_count(self) -> int:
        return 2

    def rule(self, piece: Piece, lr: float, wd: float, count: int) -> None:
        if lr:
            step = self.prepare(piece, 0.0)
            ftrl(step, piece.states, lr=lr, lamda1=self.lamda1, beta=self.beta, wd=wd)

    def fused_step(self, lr: float, wd: float, count: int) -> FusedStep | None:
        rule = FTRL(lr, self.lamda1, self.beta, wd)
        return self.fuse(rule, 0.0) if lr else None

    def is_lazy(self, weight: NDArray) -> bool:
        # MXNet's operator is lazy only where the weight is row_sparse, too.
        return weight.stype == "row_sparse"


@register
class FTML(RuleOptimizer):
    """Follow the moving leader (Zheng and Kwok, ICML 2017; MXNet ``ftml_update``).

    g = clip(rescale_grad * grad + wd * weight)
    v = beta2 * v + (1 - beta2) * g^2
    d' = (1 - beta1^t) / lr * (sqrt(v / (1 - beta2^t)) + epsilon)
    z = beta1 * z + (1 - beta1) * g - (d' - beta1 * d) * weight;  d = d'
    weight = -z / d
    """

    def __init__(
        self, beta1: float = 0.6, beta2: float = 0.999, epsilon: float = 1e-8, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def state_count(self) -> int:
        return 3

    def rule(self, piece: Piece, lr: float, wd: float, count: int) -> None:
        if lr:
            step = self.prepare(piece, wd, decay_before_clip=True)
            rates = {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}
            ftml(step, piece.states, lr=lr, count=count, **rates)
