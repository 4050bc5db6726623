"""The interface that the engine requires of a device library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from ..kernels.chain import Chain
from ..kernels.optimizer_steps import FusedStep
from ..types import Array, DType, Shape

__all__ = ["Backend"]


class Backend(Protocol):
    """Memory and arithmetic of one device. ``xp`` is numpy or cupy."""

    name: str
    xp: Any

    def scope(self) -> AbstractContextManager[Any]:
        """Return a context manager in which ``xp`` allocates and computes on this device.

        Within it, overflow and division by zero give inf and NaN without a warning.
        """
        ...

    def empty(self, shape: Shape, dtype: DType) -> Array:
        """Return an uninitialised C-contiguous array (64-byte aligned on the CPU)."""
        ...

    def asarray(self, value: Any, dtype: DType | None = None) -> Array:
        """Return the value as an array on this device; copy only if it is not one already."""
        ...

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        """Return a NumPy copy (or the array itself when it is on the host)."""
        ...

    def copy_into(self, target: Array, source: Array) -> None:
        """Copy the source, from this or another device, into the target, casting its dtype.

        Values out of the target's range give no warning; ``scope`` need not be entered.
        """
        ...

    def address(self, array: Array) -> int:
        """Return the address of the array's first element."""
        ...

    def synchronize(self) -> None:
        """Wait until all queued work of this device is done."""
        ...

    def release(self) -> None:
        """Free memory that an allocator keeps for future arrays."""
        ...

    def memory(self) -> tuple[int, int] | None:
        """Return (used, total) bytes of the device; None if it has no memory of its own."""
        ...

    def chained(self, calls: Sequence[Callable[[], Any]]) -> list[Chain]:
        """Group the steps of a pass, in order; a chain of several runs by one library call."""
        ...

    def update(
        self, weight: Array, gradient: Array, states: Sequence[Array], step: FusedStep
    ) -> bool:
        """Take a step of an optimizer in one pass over memory.

        Args:
            weight, states: one-dimensional, updated in place; the states are those of the rule.
            gradient: not changed.
            step: the rule and its parameters.

        Returns:
            False if there is no fused kernel for this; then nothing has been changed, and the
            caller computes the step operation by operation.
        """
        ...

    def solve_triangular(
        self,
        triangle: Array,
        sides: Array,
        out: Array,
        *,
        lower: bool,
        transpose: bool,
        rightside: bool,
    ) -> bool:
        """Solve ``A X = B`` for stacks of triangular matrices A.

        Args:
            triangle: A; its other triangle is not read.
            sides: B.
            out: X is written here; may be B.
            lower: A is lower triangular, otherwise upper.
            transpose: A is transposed.
            rightside: solve ``X A = B``.

        Returns:
            False if there is no kernel for this; the caller then uses array operations.
        """
        ...

    def shuffle(self, vector: Array, seed: int) -> bool:
        """Shuffle a vector in place.

        Args:
            vector: the elements.
            seed: gives the order, that of ``permutation`` of NumPy's generator with SFC64.

        Returns:
            False if there is no kernel for this; then nothing has been changed.
        """
        ...

    def invert(self, matrices: Array, out: Array) -> bool:
        """Write the inverses of a stack of matrices.

        Returns:
            False if there is no kernel for this, or a matrix is singular; the caller then uses
            array operations.
        """
        ...

    def determine(self, matrices: Array) -> tuple[Array, Array] | None:
        """Return the signs of the determinants of a stack of matrices, and the logarithms of their
        magnitudes, in float64; None if there is no kernel for this."""
        ...

    def suppress(
        self,
        sides: Sequence[Array],
        classes: Array | None,
        threshold: float,
        includes_threshold: bool,
        most: int,
    ) -> Array | None:
        """Return which boxes greedy non-maximum suppression keeps.

        Args:
            sides: left, top, right, bottom and area of the boxes, in order of decreasing score.
            classes: only boxes of the same class suppress each other; None if all are of one class.
            threshold: the intersection over union above which a box suppresses later ones.
            includes_threshold: whether it does so at exactly the threshold, too.
            most: the largest number of boxes to keep.

        Returns:
            None if there is no kernel for this; the caller then uses array operations.
        """
        ...
