"""Non-maximum suppression: of boxes that overlap, only the first stays."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from ...types import Array
from ..operator import Run, Suppress
from .geometry import Corners, overlap

__all__ = ["Suppression"]

_BLOCK = 64
_MOST_PAIRS = 2_500_000
"""Up to so many pairs of boxes that may overlap, all are listed; beyond, blocks are compared."""


@dataclasses.dataclass(frozen=True)
class Suppression:
    """When a box removes one after it.

    Attributes:
        xp: numpy or cupy.
        threshold: the intersection over union from which a box is removed.
        includes_threshold: whether one of just the threshold is.
        own: the device's own way; None for none.
    """

    xp: Any
    threshold: float
    includes_threshold: bool = False
    own: Suppress | None = None

    @classmethod
    def of(cls, run: Run, threshold: float, *, includes_threshold: bool = False) -> Suppression:
        """Return it for what an operator is given."""
        return cls(run.xp, threshold, includes_threshold, run.suppress)

    def stays(self, boxes: Corners, classes: Array | None = None, most: int | None = None) -> Array:
        """Return which of the boxes, the best first, stay; (n,) of bool.

        ``classes`` (n,) are whole numbers; boxes of different ones leave each other alone. Behind
        the first ``most`` that stay, others may be said to stay or not.
        """
        count = len(boxes.left)
        if not count:
            return self.xp.ones(0, dtype="bool")
        if self.own is not None:
            sides = (boxes.left, boxes.top, boxes.right, boxes.bottom, boxes.area)
            limits = (self.threshold, self.includes_threshold, most or count)
            found = self.own(sides, classes, *limits)
            if found is not None:
                return found
        pairs = self._close_pairs(boxes, classes) if self.threshold > 0 else None
        if pairs is None:
            return self._by_blocks(boxes, classes)
        first, later = pairs
        removes = self._is_overlapping(boxes[first], boxes[later])
        return self._by_pairs(count, first[removes], later[removes])

    def _is_overlapping(self, first: Corners, later: Corners) -> Array:
        ratio, union = overlap(self.xp, first, later)
        ratio /= union
        return ratio >= self.threshold if self.includes_threshold else ratio > self.threshold

    # -- few boxes lie near each other: all pairs of them -----------------------------------------

    def _close_pairs(self, boxes: Corners, classes: Array | None) -> tuple[Array, Array] | None:
        """Return all pairs that may overlap, and some more; None where they are too many.

        Of two boxes that overlap, the one further right begins within the left one, before the
        share ``1 - threshold`` of its width.
        """
        xp, count = self.xp, len(boxes.left)
        left, right = boxes.left.astype("float64"), boxes.right.astype("float64")
        reach = left + (1 - self.threshold) * (right - left)
        reach += 1e-4 * abs(right - left) + 1e-6 * (abs(left) + abs(right))
        span = float(reach.max() - left.min())
        if not math.isfinite(span):
            return None
        if classes is not None:
            # Each class has a place of its own along the axis.
            left, reach = left + classes * (span + 1), reach + classes * (span + 1)
        order = xp.argsort(left)
        place = xp.arange(count)
        ends = xp.searchsorted(left[order], reach[order], side="right")
        counts = xp.maximum(ends - place - 1, 0)
        total = int(counts.sum())
        if total > _MOST_PAIRS:
            return None
        if not total:
            return order[:0], order[:0]
        starts = xp.cumsum(counts) - counts
        one = xp.cumsum(xp.bincount(starts[counts > 0], minlength=total)[:total]) - 1
        one = place[counts > 0][one]
        other = one + 1 + xp.arange(total) - starts[one]
        one, other = order[one], order[other]
        meet = boxes.bottom[one] > boxes.top[other]
        one, other = one[meet], other[meet]
        return xp.minimum(one, other), xp.maximum(one, other)

    def _by_pairs(self, count: int, first: Array, later: Array) -> Array:
        """Resolve the pairs; each round is right about one box more, at least."""
        stays = self.xp.ones(count, dtype="bool")
        while True:
            again = self.xp.ones(count, dtype="bool")
            again[later[stays[first]]] = False
            if (again == stays).all():
                return stays
            stays = again

    # -- many do: blocks of boxes with all that are left ------------------------------------------

    def _by_blocks(self, boxes: Corners, classes: Array | None) -> Array:
        xp = self.xp
        stays = xp.zeros(len(boxes.left), dtype="bool")
        left = xp.arange(len(stays))
        while left.size:
            block, left = left[:_BLOCK], left[_BLOCK:]
            among = xp.triu(self._compare(boxes, classes, block, block), 1)
            chosen = block[self._by_pairs(len(block), *xp.nonzero(among))]
            stays[chosen] = True
            if left.size:
                left = left[~self._compare(boxes, classes, chosen, left).any(axis=0)]
        return stays

    def _compare(self, boxes: Corners, classes: Array | None, first: Array, later: Array) -> Array:
        found = self._is_overlapping(boxes[first][:, None], boxes[later])
        if classes is not None:
            found &= classes[first][:, None] == classes[later]
        return found
