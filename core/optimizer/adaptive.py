"""Optimizers with a step size per element: AdaDelta, AdaGrad, Adam, Adamax, Nadam, RMSProp."""

from __future__ import annotations

import math
from typing import Any

from ..kernels import optimizer_steps
from ..kernels.optimizer_steps import FusedStep
from ..ops.update_rules import (
    adagrad,
    adam,
    move_mean,
    move_mean_square,
    rmsprop,
    rmsprop_centered,
)
from .base import register
from .rule import Piece, RuleOptimizer, limit

__all__ = ["AdaDelta", "AdaGrad", "Adam", "Adamax", "Nadam", "RMSProp"]


@register
class Adam(RuleOptimizer):
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
        step = self.prepare(piece, wd, decay_before_clip=True)
        rates = {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}
        adam(step, piece.states, lr=self._corrected(lr, count), **rates)

    def fused_step(self, lr: float, wd: float, count: int) -> FusedStep:
        rule = optimizer_steps.Adam(
            self._corrected(lr, count), self.beta1, self.beta2, self.epsilon
        )
        return self.fuse(rule, wd, decay_before_clip=True)

    def _corrected(self, lr: float, count: int) -> float:
        """Return the learning rate that makes up for averages that started from 0."""
        return lr * math.sqrt(1 - self.beta2**count) / (1 - self.beta1**count)


@register
class Adamax(RuleOptimizer):
    """Adam with the infinity norm (Kingma and Ba, arXiv:1412.6980, section 7).

        g = clip(rescale_grad * grad + wd * weight)
        m = beta1 * m + (1 - beta1) * g
        u = max(beta2 * u, |g|)
        weight -= lr / (1 - beta1^t) * m / u

    A weight that has had no gradient yet (m = u = 0) stays as it is; MXNet makes it NaN.
    """

    def __init__(
        self,
        learning_rate: float = 0.002,
        beta1: float = 0.9,
        beta2: float = 0.999,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2

    def state_count(self) -> int:
        return 2

    def rule(self, piece: Piece, lr: float, wd: float, count: int) -> None:
        xp, other = piece.xp, piece.scratch[1]
        mean, norm = piece.states
        gradient = self.prepare(piece, wd, decay_before_clip=True).gradient
        move_mean(xp, mean, gradient, self.beta1, other)
        xp.absolute(gradient, out=gradient)
        norm *= self.beta2
        xp.maximum(norm, gradient, out=norm)
        # norm, but 1 where that is 0. There the mean is 0, too, and so is the step.
        divisor = gradient
        xp.equal(norm, 0, out=divisor)
        divisor += norm
        xp.divide(mean, divisor, out=other)
        other *= lr / (1 - self.beta1**count)
        piece.weight -= other


@register
class Nadam(RuleOptimizer):
    """Adam with Nesterov's momentum (Dozat, ICLR workshop 2016).

        g = clip(rescale_grad * grad + wd * weight)
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g^2
        mu_t = beta1 * (1 - 0.5 * 0.96^(t * schedule_decay));  M = M * mu_t
        n = (1 - mu_t) * g / (1 - M) + mu_{t+1} * m / (1 - M * mu_{t+1})
        weight -= lr * n / (sqrt(v / (1 - beta2^t)) + epsilon)

    ``M`` is ``m_schedule``. All parameters share it, and as in MXNet it moves on with each of them:
    the numbers depend on their order.

    Args:
        schedule_decay: how fast mu_t grows from beta1 / 2 to beta1.
    """

    whole_parameters = True

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        schedule_decay: float = 0.004,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.schedule_decay = schedule_decay
        self.m_schedule = 1.0

    def state_count(self) -> int:
        return 2

    def rule(self, piece: Piece, lr: float, wd: float, count: int) -> None:
        xp, other = piece.xp, piece.scratch[1]
        mean, variance = piece.states
        now, after = self._momentum_at(count), self._momentum_at(count + 1)
        self.m_schedule *= now
        gradient = self.prepare(piece, wd, decay_before_clip=True).gradient
        move_mean(xp, mean, gradient, self.beta1, other)
        move_mean_square(xp, variance, gradient, self.beta2, other)
        gradient *= (1 - now) / (1 - self.m_schedule)
        xp.multiply(mean, after / (1 - self.m_schedule * after), out=other)
        gradient += other
        xp.divide(variance, 1 - self.beta2**count, out=other)
        xp.sqrt(other, out=other)
        other += self.epsilon
        gradient /= other
        gradient *= lr
        piece.weight -= gradient

    def _momentum_at(self, count: int) -> float:
        return self.beta1 * (1 - 0.5 * math.pow(0.96, count * self.schedule_decay))


@register
class AdaDelta(RuleOptimizer):
    """AdaDelta (Zeiler, arXiv:1212.5701), which uses no learning rate.

        g = clip(rescale_grad * grad)
        n = rho * n + (1 - rho) * g^2
        delta = sqrt(d + epsilon) / sqrt(n + epsilon) * g
        d = rho * d + (1 - rho) * delta^2
        weight -= delta + wd * weight

    Args:
        rho: decay of both moving averages.
    """

    def __init__(self, rho: float = 0.90, epsilon: float = 1e-5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rho = rho
        self.epsilon = epsilon

    def state_count(self) -> int:
        return 2

    def rule(self, piece: Piece, lr: float, wd: float, count: int) -> None:
        xp, other = piece.xp, piece.scratch[1]
        square, delta_square = piece.states
        gradient = self.prepare(piece, 0.0).gradient
        move_mean_square(xp, square, gradient, self.rho, other)
        xp.add(square, self.epsilon, out=other)
        xp.sqrt(other, out=other)
        gradient /= other
        xp.add(delta_square, self.epsilon, out=other)
        xp.sqrt(other, out=other)
        gradient *= other
        move_mean_square(xp, delta_square, gradient, self.rho, other)
        if wd:
            xp.multiply(piece.weight, wd, out=other)
            gradient += other
        piece.weight -= gradient


@register
class AdaGrad(RuleOptimizer):
    """AdaGrad (Duchi, Hazan and Singer, JMLR 12).

    g = clip(rescale_grad * grad)
    history += g^2
    weight -= lr * (g / sqrt(history + eps) + wd * weight)
    """

    lazy_update = True

    def __init__(self, eps: float = 1e-7, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def state_count(self) -> int:
        return 1

    def rule(self, piece: Piece, lr: float, wd: float, count: int) -> None:
        step = self.prepare(piece, 0.0)
        adagrad(step, piece.states, lr=lr, epsilon=self.float_stable_eps, wd=wd)

    def fused_step(self, lr: float, wd: float, count: int) -> FusedStep:
        return self.fuse(optimizer_steps.AdaGrad(lr, self.float_stable_eps, wd), 0.0)


@register
class RMSProp(RuleOptimizer):
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
        step, clip = (
            self.prepare(piece, wd, decay_before_clip=True),
            limit(self.clip_weights) or None,
        )
        if self.centered:
            gammas = {"gamma1": self.gamma1, "gamma2": self.gamma2}
            rmsprop_centered(step, piece.states, lr=lr, epsilon=self.epsilon, clip=clip, **gammas)
        else:
            rates = {"gamma1": self.gamma1, "epsilon": self.epsilon}
            rmsprop(step, piece.states, lr=lr, clip=clip, **rates)

    def fused_step(self, lr: float, wd: float, count: int) -> FusedStep:
        rule: optimizer_steps.RMSProp | optimizer_steps.CenteredRMSProp
        clip = limit(self.clip_weights)
        if self.centered:
            rule = optimizer_steps.CenteredRMSProp(lr, self.gamma1, self.gamma2, self.epsilon, clip)
        else:
            rule = optimizer_steps.RMSProp(lr, self.gamma1, self.epsilon, clip)
        return self.fuse(rule, wd, decay_before_clip=True)
