"""What the engine asks of a device library."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from ..types import Array, DType, Shape

__all__ = ["Backend", "Descent"]


@dataclasses.dataclass(frozen=True, slots=True)
class Descent:
    """The factors of a step of stochastic gradient descent.

        g = clip(rescale * gradient) + decay * weight
        velocity = momentum * velocity - rate * g
        weight = weight + velocity

    Attributes:
        rescale: of the gradient.
        clip: largest magnitude of a rescaled gradient; 0 for any.
        decay: share of the weight that is added to the gradient.
        rate: learning rate.
        momentum: share of the last step that is taken again.
    """

    rescale: float
    clip: float
    decay: float
    rate: float
    momentum: float


class Backend(Protocol):
    """Memory and arithmetic of one device. ``xp`` is numpy or cupy."""

    name: str
    xp: Any

    def scope(self) -> AbstractContextManager[Any]:
        """Return a block in which ``xp`` allocates and computes on this device.

        Overflow and division by zero give inf and NaN there, and no warning.
        """
        ...

    def empty(self, shape: Shape, dtype: DType) -> Array:
        """Return an uninitialised C-contiguous array (64-byte aligned on the CPU)."""
        ...

    def asarray(self, value: Any, dtype: DType | None = None) -> Array:
        """Return the value as an array of this device, without a copy where it is one."""
        ...

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        """Return a NumPy copy (or the array itself when it is on the host)."""
        ...

    def copy_into(self, target: Array, source: Array) -> None:
        """Copy the source, from this or another device, into the target, casting its dtype."""
        ...

    def address(self, array: Array) -> int:
        """Return where the array's memory begins."""
        ...

    def synchronize(self) -> None:
        """Wait until all queued work of this device is done."""
        ...

    def release(self) -> None:
        """Give memory back to the device that is kept for arrays to come."""
        ...

    def memory(self) -> tuple[int, int] | None:
        """Return (bytes in use, bytes in all) of the device, or None where it has no own memory."""
        ...

    def descend(
        self, weight: Array, velocity: Array | None, gradient: Array, step: Descent
    ) -> bool:
        """Take a step of gradient descent in one pass; False where there is no faster way than
        operation by operation, and nothing has been done.

        Args:
            weight, velocity: one-dimensional, updated in place; no velocity for no momentum.
            gradient: stays as it is.
            step: the factors.
        """
        ...

    def suppress(
        self,
        sides: Sequence[Array],
        classes: Array | None,
        threshold: float,
        includes_threshold: bool,
        most: int,
    ) -> Array | None:
        """Return which boxes stay of those that overlap; None where there is no faster way than
        array by array.

        Args:
            sides: left, top, right, bottom and area of the boxes, the best first.
            classes: boxes of different ones leave each other alone; None where all are of one.
            threshold: the intersection over union from which a box removes those after it.
            includes_threshold: whether one of just the threshold is removed.
            most: how many may stay; all behind them go.
        """
        ...
