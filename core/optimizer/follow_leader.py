"""Optimizers that follow the (moving) leader: FTRL and FTML.

Both solve for the weight anew at every step, with a term divided by the learning rate. At a rate of
0, where MXNet makes the weights NaN, they leave everything as it is.
"""

from __future__ import annotations

from typing import Any

from ..ndarray import NDArray
from ..ops.updates import as_single
from .base import register
from .rule import Piece, RuleOptimizer, move_mean, move_mean_square

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
        if not lr:
            return
        xp, other = piece.xp, piece.scratch[1]
        z, n = piece.states
        gradient = self.prepare(piece, 0.0)
        z += gradient
        xp.sqrt(n, out=other)
        gradient *= gradient
        n += gradient
        root = piece.scratch[0]
        xp.sqrt(n, out=root)
        xp.subtract(root, other, out=other)
        other *= piece.weight
        other /= lr
        z -= other
        root += self.beta
        root /= lr
        root += wd
        xp.clip(z, -self.lamda1, self.lamda1, out=other)
        other -= z
        xp.divide(other, root, out=piece.weight)

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
        if not lr:
            return
        xp, other = piece.xp, piece.scratch[1]
        d, v, z = piece.states
        gradient = self.prepare(piece, wd, decay_before_clip=True)
        beta1, beta2 = as_single(self.beta1), as_single(self.beta2)
        move_mean_square(xp, v, gradient, beta2, other)
        move_mean(xp, z, gradient, beta1, gradient)
        new_d = other
        xp.divide(v, 1 - beta2**count, out=new_d)
        xp.sqrt(new_d, out=new_d)
        new_d += self.epsilon
        new_d *= (1 - beta1**count) / lr
        d *= -self.beta1
        d += new_d
        d *= piece.weight
        z -= d
        d[...] = new_d
        xp.divide(z, d, out=piece.weight)
        xp.negative(piece.weight, out=piece.weight)
