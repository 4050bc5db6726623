"""Learning rate schedulers that preceded ``mx.lr_scheduler`` (``mxnet.misc``)."""

from __future__ import annotations

import logging

__all__ = ["FactorScheduler", "LearningRateScheduler"]


class LearningRateScheduler:
    """Base: ``base_lr`` is the initial rate; a call returns the rate of an iteration."""

    def __init__(self) -> None:
        self.base_lr = 0.01

    def __call__(self, iteration: int) -> float:
        """Return the learning rate of an iteration."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__")


class FactorScheduler(LearningRateScheduler):
    """Multiplies the rate by a factor every ``step`` iterations.

    Args:
        step: number of iterations, 1 or more.
        factor: below 1.

    Raises:
        ValueError: ``step`` or ``factor`` is out of range.
    """

    def __init__(self, step: int, factor: float = 0.1) -> None:
        super().__init__()
        if step < 1:
            raise ValueError(f"Schedule step must be greater or equal than 1 round, got {step}")
        if factor >= 1.0:
            raise ValueError(f"Factor must be less than 1 to make lr reduce, got {factor}")
        self.step, self.factor = step, factor
        self._last: float | None = None

    def __call__(self, iteration: int) -> float:
        """Return the learning rate of an iteration; a new one is logged."""
        rate = float(self.base_lr * self.factor ** (iteration // self.step))
        if rate != (self.base_lr if self._last is None else self._last):
            # MXNet's own words, spelling included.
            logging.info("At Iteration [%d]: Swith to new learning rate %.5f", iteration, rate)
        self._last = rate
        return rate
