"""Optimizers for large batches, whose rate depends on the norms of each parameter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from ..backends import backend_of
from ..config import aggregation_size
from ..ndarray import NDArray
from ..ops.update_rules import lamb_direction, lars_rate, move_weight, trust_ratio
from .base import register
from .rule import Piece, RuleOptimizer, sum_of_squares
from .sgd import MomentumOptimizer

__all__ = ["LAMB", "LARS", "LBSGD"]

WarmupStrategy = Literal["linear", "power2", "sqrt", "lars"]


@register
class LARS(MomentumOptimizer):
    """SGD with a rate for each layer (You, Gitman and Ginsburg, arXiv:1708.03888).

        rate = lr * eta * |weight| / (|rescale_grad * grad| + wd * |weight| + eps)
        g = clip(rescale_grad * grad) + wd * weight
        state = momentum * state - rate * g
        weight = weight + state

    Where a norm is 0, and for names that end in gamma, beta or bias, the rate is lr. Only weights
    decay by default.

    Args:
        momentum: factor on the previous step; 0 keeps no state.
        lazy_update: update only the rows present in a row_sparse gradient.
        eta: the trust in a layer.
        eps: added to the divisor.
        momentum_correction: when the learning rate changes, scale the momentum along with it
            (Goyal et al., arXiv:1706.02677) - as in MXNet, for the ``aggregate_num`` parameters
            that are updated first under the new rate.
    """

    whole_parameters = True
    decayed_suffixes: ClassVar[tuple[str, ...]] = ("_weight",)

    def __init__(
        self,
        momentum: float = 0.0,
        lazy_update: bool = True,
        eta: float = 0.001,
        eps: float = 0,
        momentum_correction: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(momentum=momentum, **kwargs)
        self.momentum_correction = momentum_correction
        self.lazy_update = lazy_update
        self.aggregate_num = aggregation_size()
        self.eta = eta
        self.eps = eps
        self.last_lr: float | None = None
        self.cur_lr: float | None = None

    def rule(self, piece: Piece, lr: float, wd: float, count: int) -> None:
        step = self.prepare(piece, wd)
        move_weight(step, piece.states, lr=lr, momentum=self._corrected_momentum())

    def _update_count(self, index: Any | Sequence[Any]) -> None:
        super()._update_count(index)
        rate = self.learning_rate
        self.last_lr = rate if self.cur_lr is None else self.cur_lr
        self.cur_lr = rate

    def _get_rates(self, index: Any, weight: NDArray, grad: NDArray) -> tuple[float, float]:
        lr, wd = super()._get_rates(index, weight, grad)
        if self.idx2name.get(index, str(index)).endswith(("gamma", "beta", "bias")):
            return lr, wd
        # Of the gradient before clipping, as in MXNet.
        weight_norm = math.sqrt(_sum_of_squares(weight))
        grad_norm = math.sqrt(_sum_of_squares(grad)) * self.rescale_grad
        if weight_norm > 0 and grad_norm > 0:
            lr = lars_rate(lr, weight_norm, grad_norm, wd, self.eta, self.eps)
        return lr, wd

    def _corrected_momentum(self) -> float:
        if not self.momentum_correction or not self.last_lr:
            return self.momentum
        assert self.cur_lr is not None
        return self.momentum * self.cur_lr / self.last_lr


@register
class LBSGD(RuleOptimizer):
    """SGD that emulates large batches, with a warm-up or a rate for each layer.

    Gradients of ``batch_scale`` calls are averaged, and then applied as SGD does, with the learning
    rate times a multiplier:

        linear   1 + (batch_scale - 1) * n / N
        power2   1 + (batch_scale - 1) * (n / N)^2
        sqrt     1 + (batch_scale - 1) * sqrt(n / N)
        lars     sqrt(|weight|^2 / (|grad|^2 + wd * |weight|^2)), within 0.01 and 100

    where n is the number of calls so far and N that of the warm-up; thereafter it is batch_scale.

    Args:
        momentum: factor on the previous step; 0 keeps no state.
        multi_precision: keep float32 copies of float16 weights.
        warmup_strategy: which multiplier.
        warmup_epochs: length of the warm-up.
        batch_scale: how many batches make a large one.
        updates_per_epoch: calls in an epoch.
        begin_epoch: epochs of the warm-up that are over at the start.
        num_epochs: epochs to train; kept for scripts that read it.
    """

    whole_parameters = True

    def __init__(
        self,
        momentum: float = 0.0,
        multi_precision: bool = False,
        warmup_strategy: WarmupStrategy = "linear",
        warmup_epochs: int = 5,
        batch_scale: int = 1,
        updates_per_epoch: int = 32,
        begin_epoch: int = 0,
        num_epochs: int = 60,
        **kwargs: Any,
    ) -> None:
        super().__init__(multi_precision=multi_precision, **kwargs)
        strategies = ("linear", "power2", "sqrt", "lars")
        if warmup_strategy not in strategies:
            raise ValueError(
                f"warmup_strategy is {warmup_strategy!r}; expected one of {', '.join(strategies)}"
            )
        if batch_scale < 1:
            raise ValueError(f"batch_scale is {batch_scale}; expected at least 1")
        self.momentum = momentum
        self.warmup_strategy = warmup_strategy
        self.warmup_epochs = warmup_epochs
        self.batch_scale = batch_scale
        self.updates_per_epoch = updates_per_epoch
        self.init_updates = begin_epoch * updates_per_epoch
        self.num_epochs = num_epochs
        self.cumgrads: dict[Any, dict[str, Any]] = {}

    def state_count(self) -> int:
        return 1 if self.momentum else 0

    def rule(self, piece: Piece, lr: float, wd: float, count: int) -> None:
        move_weight(self.prepare(piece, wd), piece.states, lr=lr, momentum=self.momentum)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Add a gradient to its large batch; update the weight where that is complete."""
        # As in MXNet, the rate is that of the time before this update.
        lr, wd = self._get_rates(index, weight, grad)
        self._update_count(index)
        calls = self.init_updates + self._index_update_count[index] - self.begin_num_update
        mean = self._accumulate(index, grad, calls)
        if mean is None:
            return
        if self.warmup_strategy == "lars":
            lr *= _layer_multiplier(weight, mean, wd)
        else:
            lr *= self._warmup_multiplier(calls)
        self._apply(index, weight, mean, state, lr, wd)

    def _accumulate(self, index: Any, grad: NDArray, calls: int) -> NDArray | None:
        """Return the mean gradient of a large batch that is complete with this one, else None."""
        if self.batch_scale == 1:
            return grad
        entry = self.cumgrads.setdefault(index, {"cum_grad": 0, "num_cums": 0})
        entry["cum_grad"] = entry["cum_grad"] + grad
        entry["num_cums"] = calls
        if calls % self.batch_scale:
            return None
        mean: NDArray = entry["cum_grad"] / self.batch_scale
        entry["cum_grad"] = 0
        return mean

    def _warmup_multiplier(self, calls: int) -> float:
        warmup = self.warmup_epochs * self.updates_per_epoch
        if calls >= warmup:
            return float(self.batch_scale)
        if warmup <= 1:
            return 1.0
        power = {"linear": 1.0, "power2": 2.0, "sqrt": 0.5}[self.warmup_strategy]
        return 1.0 + (self.batch_scale - 1) * float((calls / warmup) ** power)


@register
class LAMB(RuleOptimizer):
    """Adam with a rate for each layer (You et al., arXiv:1904.00962; MXNet ``lamb_update``).

        g = clip(rescale_grad * grad)
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g^2
        step = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon) + wd * weight
        weight -= lr * clamp(|weight|, lower_bound, upper_bound) / |step| * step

    Where a norm is 0 the ratio is 1.

    Args:
        lower_bound: least norm of the weight that counts.
        upper_bound: greatest norm of the weight that counts.
        bias_correction: divide m and v by 1 - beta^t.
    """

    whole_parameters = True

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        lower_bound: float | None = None,
        upper_bound: float | None = None,
        bias_correction: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound
        self.bias_correction = bias_correction

    def state_count(self) -> int:
        return 2

    def rule(self, piece: Piece, lr: float, wd: float, count: int) -> None:
        step = self.prepare(piece, 0.0)
        direction = lamb_direction(
            step,
            piece.states,
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=self.epsilon,
            wd=wd,
            count=count if self.bias_correction else None,
        )
        direction *= lr * self._trust_ratio(piece.xp, piece.weight, direction)
        piece.weight -= direction

    def _trust_ratio(self, xp: Any, weight: Any, step: Any) -> float:
        # Arrays of one element, because the operators call ``trust_ratio`` with arrays.
        norm, step_norm = (np.sqrt([sum_of_squares(xp, one)]) for one in (weight, step))
        ratio = trust_ratio(norm, step_norm, self.lower_bound or None, self.upper_bound or None)
        return float(ratio[0])


def _sum_of_squares(array: NDArray) -> float:
    backend = backend_of(array.context)
    with backend.scope():
        return sum_of_squares(backend.xp, array.dense().reshape(-1))


def _layer_multiplier(weight: NDArray, grad: NDArray, wd: float) -> float:
    squares = _sum_of_squares(weight)
    # The constants are MXNet's; the first only keeps the divisor from being 0.
    ratio = math.sqrt(squares / (_sum_of_squares(grad) + wd * squares + 1e-18))
    return min(max(ratio, 0.01), 100.0)
