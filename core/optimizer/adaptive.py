"""Optimizers with a step size per element: AdaGrad, RMSProp, Adam."""

from __future__ import annotations

import math
from typing import Any

from core.optimizer.base import register
from core.optimizer.elementwise import ElementwiseOptimizer, Piece

__all__ = ["AdaGrad", "Adam", "RMSProp"]


@register
class Adam(ElementwiseOptimizer):
    """Adam (Kingma and Ba, arXiv:1412.6980; MXNet ``adam_update``).

    g = clip(rescale_grad * grad + wd * weight)
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g^2
    weight -= lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon)
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        lazy_update: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.lazy_update = lazy_update

    def state_count(self) -> int:
        return 2

    def rule(self, piece: Piece, lr: float, wd: float, count: int) -> None:
        xp, other = piece.xp, piece.scratch[1]
        mean, variance = piece.states
        gradient = self.prepare(piece, wd, decay_before_clip=True)
        mean *= self.beta1
        xp.multiply(gradient, 1 - self.beta1, out=other)
        mean += other
        variance *= self.beta2
        gradient *= gradient
        gradient *= 1 - self.beta2
        variance += gradient
        xp.sqrt(variance, out=other)
        other += self.epsilon
        xp.divide(mean, other, out=other)
        other *= lr * math.sqrt(1 - self.beta2**count) / (1 - self.beta1**count)
        piece.weight -= other


@register
class AdaGrad(ElementwiseOptimizer):
    """AdaGrad (Duchi, Hazan and Singer, JMLR 12).

    g = clip(rescale_grad * grad)
    history += g^2
    weight -= lr * (g / sqrt(history + eps) + wd * weight)
    """

    def __init__(self, eps: float = 1e-7, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def state_count(self) -> int:
        return 1

    def rule(self, piece: Piece, lr: float, wd: float, count: int) -> None:
        xp, other = piece.xp, piece.scratch[1]
        (history,) = piece.states
        gradient = self.prepare(piece, 0.0)
        xp.multiply(gradient, gradient, out=other)
        history += other
        xp.add(history, self.float_stable_eps, out=other)
        xp.sqrt(other, out=other)
        gradient /= other
        if wd:
            xp.multiply(piece.weight, wd, out=other)
            gradient += other
        gradient *= lr
        piece.weight -= gradient


@register
class RMSProp(ElementwiseOptimizer):
    """RMSProp, plain (Tieleman and Hinton) or centered (Graves, arXiv:1308.0850, 38-45).

    Plain:
        g = clip(rescale_grad * grad + wd * weight)
        n = gamma1 * n + (1 - gamma1) * g^2
        weight -= lr * g / sqrt(n + epsilon)
    Centered, with a mean ``a`` of g and a step ``delta``:
        delta = gamma2 * delta - lr * g / sqrt(n - a^2 + epsilon)
        weight += delta

    Args:
        gamma1: decay of the moving averages.
        gamma2: momentum, used when centered.
        centered: choose Graves's version.
        clip_weights: clip the weights to [-clip_weights, clip_weights] after the update.
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        gamma1: float = 0.9,
        gamma2: float = 0.9,
        epsilon: float = 1e-8,
        centered: bool = False,
        clip_weights: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.gamma1 = gamma1
        self.gamma2 = gamma2
        self.centered = centered
        self.epsilon = epsilon
        self.clip_weights = clip_weights

    def state_count(self) -> int:
        return 3 if self.centered else 1

    def pack_states(self, states: Any) -> Any:
        """Return the states as a tuple, also a single one, as MXNet does for this optimizer."""
        return tuple(states)

    def rule(self, piece: Piece, lr: float, wd: float, count: int) -> None:
        xp, other = piece.xp, piece.scratch[1]
        gradient = self.prepare(piece, wd, decay_before_clip=True)
        square = piece.states[0]
        square *= self.gamma1
        xp.multiply(gradient, gradient, out=other)
        other *= 1 - self.gamma1
        square += other
        if self.centered:
            self._centered_step(piece, gradient, lr)
        else:
            xp.add(square, self.epsilon, out=other)
            xp.sqrt(other, out=other)
            gradient /= other
            gradient *= lr
            piece.weight -= gradient
        if self.clip_weights:
            xp.clip(piece.weight, -self.clip_weights, self.clip_weights, out=piece.weight)

    def _centered_step(self, piece: Piece, gradient: Any, lr: float) -> None:
        xp, other = piece.xp, piece.scratch[1]
        square, mean, delta = piece.states
        mean *= self.gamma1
        xp.multiply(gradient, 1 - self.gamma1, out=other)
        mean += other
        xp.multiply(mean, mean, out=other)
        xp.subtract(square, other, out=other)
        other += self.epsilon
        xp.sqrt(other, out=other)
        gradient /= other
        gradient *= lr
        delta *= self.gamma2
        delta -= gradient
        piece.weight += delta
