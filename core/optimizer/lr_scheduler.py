"""Learning rate as a function of the number of updates (``mx.lr_scheduler``)."""

from __future__ import annotations

import itertools
import logging
import math

from ..checkpoint import register_pickled
from ..errors import UsageError

__all__ = [
    "CosineScheduler",
    "FactorScheduler",
    "LRScheduler",
    "MultiFactorScheduler",
    "PolyScheduler",
]


class LRScheduler:
    """Base of all schedulers: warm-up from ``warmup_begin_lr`` to ``base_lr``.

    Args:
        base_lr: the rate that scheduling starts from.
        warmup_steps: number of updates of the warm-up.
        warmup_begin_lr: rate at the first update of the warm-up.
        warmup_mode: ``"linear"`` or ``"constant"``.
    """

    def __init__(
        self,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        if not isinstance(warmup_steps, int) or warmup_steps < 0:
            raise ValueError(f"warmup_steps is {warmup_steps!r}; expected a non-negative integer")
        if warmup_begin_lr > base_lr:
            raise ValueError(
                f"warmup_begin_lr {warmup_begin_lr} is above base_lr {base_lr}; warm-up must rise"
            )
        if warmup_mode not in ("linear", "constant"):
            raise ValueError(f"warmup_mode is {warmup_mode!r}; expected 'linear' or 'constant'")
        self.base_lr = base_lr
        self.warmup_steps = warmup_steps
        self.warmup_begin_lr = warmup_begin_lr
        self.warmup_final_lr = base_lr
        self.warmup_mode = warmup_mode

    def get_warmup_lr(self, num_update: int) -> float:
        """Return the rate at an update of the warm-up."""
        if self.warmup_mode == "constant":
            return self.warmup_begin_lr
        rise = self.warmup_final_lr - self.warmup_begin_lr
        return self.warmup_begin_lr + rise * num_update / self.warmup_steps

    def __call__(self, num_update: int) -> float:
        """Return the learning rate at an update count."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__(num_update)")


def _check_factor(factor: float) -> None:
    if factor > 1.0:
        raise ValueError(f"factor is {factor}; it must not exceed 1, or the rate would grow")


class FactorScheduler(LRScheduler):
    """Multiply the rate by ``factor`` every ``step`` updates, down to ``stop_factor_lr``."""

    def __init__(
        self,
        step: int,
        factor: float = 1,
        stop_factor_lr: float = 1e-8,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if step < 1:
            raise ValueError(f"step is {step}; expected at least 1")
        _check_factor(factor)
        self.step = step
        self.factor = factor
        self.stop_factor_lr = stop_factor_lr
        self.count = 0

    def __call__(self, num_update: int) -> float:
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        # A loop, because training that is resumed begins with a large count.
        while num_update > self.count + self.step:
            self.count += self.step
            self.base_lr *= self.factor
            if self.base_lr < self.stop_factor_lr:
                self.base_lr = self.stop_factor_lr
                logging.info(
                    "Update[%d]: learning rate arrived at %0.5e and stays there",
                    num_update,
                    self.base_lr,
                )
            else:
                logging.info("Update[%d]: learning rate is %0.5e", num_update, self.base_lr)
        return self.base_lr


class MultiFactorScheduler(LRScheduler):
    """Multiply the rate by ``factor`` at each of the given update counts."""

    def __init__(
        self,
        step: list[int],
        factor: float = 1,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if not isinstance(step, list) or not step:
            raise UsageError(f"step is {step!r}; expected a list of update counts")
        if step[0] < 1 or any(a >= b for a, b in itertools.pairwise(step)):
            raise ValueError(f"step is {step}; expected increasing counts of at least 1")
        _check_factor(factor)
        self.step = step
        self.cur_step_ind = 0
        self.factor = factor
        self.count = 0

    def __call__(self, num_update: int) -> float:
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        while self.cur_step_ind < len(self.step) and num_update > self.step[self.cur_step_ind]:
            self.count = self.step[self.cur_step_ind]
            self.cur_step_ind += 1
            self.base_lr *= self.factor
            logging.info("Update[%d]: learning rate is %0.5e", num_update, self.base_lr)
        return self.base_lr


class _DecayScheduler(LRScheduler):
    """From ``base_lr`` to ``final_lr`` at ``max_update`` along a curve over the decay steps."""

    def __init__(
        self,
        max_update: int,
        base_lr: float = 0.01,
        final_lr: float = 0,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if not isinstance(max_update, int) or max_update < 1:
            raise UsageError(f"max_update is {max_update!r}; expected an integer of at least 1")
        self.base_lr_orig = base_lr
        self.max_update = max_update
        self.final_lr = final_lr
        self.max_steps = max_update - warmup_steps

    def _curve(self, progress: float) -> float:
        raise NotImplementedError(f"{type(self).__name__} must define its curve")

    def __call__(self, num_update: int) -> float:
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        if num_update <= self.max_update:
            # A warm-up may take all updates; MXNet then divides by zero at the last.
            progress = (num_update - self.warmup_steps) / self.max_steps if self.max_steps else 1.0
            span = self.base_lr_orig - self.final_lr
            self.base_lr = self.final_lr + span * self._curve(progress)
        # After ``max_update`` the rate stays what it was last.
        return self.base_lr


class PolyScheduler(_DecayScheduler):
    """Decay with a polynomial of power ``pwr``."""

    def __init__(
        self,
        max_update: int,
        base_lr: float = 0.01,
        pwr: float = 2,
        final_lr: float = 0,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0,
        warmup_mode: str = "linear",
    ) -> None:
        super().__init__(max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.power = pwr

    def _curve(self, progress: float) -> float:
        return float((1 - progress) ** self.power)


class CosineScheduler(_DecayScheduler):
    """Decay along half a cosine."""

    def _curve(self, progress: float) -> float:
        return (1 + math.cos(math.pi * progress)) / 2


for _scheduler in (
    LRScheduler,
    FactorScheduler,
    MultiFactorScheduler,
    PolyScheduler,
    CosineScheduler,
):
    register_pickled(_scheduler, "mxnet.lr_scheduler")
