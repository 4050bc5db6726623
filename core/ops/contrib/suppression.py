"""Non-maximum suppression: of overlapping boxes only the first is kept."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from ...types import Array
from ..operator import Run, Suppress
from .geometry import Corners, overlap

__all__ = ["Suppression"]

_BLOCK = 64
"""Boxes that are compared with each other and then with all that remain."""

_MOST_PAIRS = 2_500_000
"""Largest number of candidate pairs to list at once, which bounds memory; with more, boxes are
compared block by block."""


@dataclasses.dataclass(frozen=True)
class Suppression:
    """The condition under which a box suppresses a later one, and the algorithm.

    Attributes:
        xp: numpy or cupy.
        threshold: the intersection over union above which a box is suppressed.
        includes_threshold: whether a value equal to the threshold suppresses, too.
        own: the device's implementation, or None.
    """

    xp: Any
    threshold: float
    includes_threshold: bool = False
    own: Suppress | None = None

    @classmethod
    def of(cls, run: Run, threshold: float, *, includes_threshold: bool = False) -> Suppression:
        """Return it for an operator's run."""
        return cls(run.xp, threshold, includes_threshold, run.suppress)

    def stays(self, boxes: Corners, classes: Array | None = None, most: int | None = None) -> Array:
        """Return which boxes are kept, (n,) of bool; boxes are sorted, the best first.

        ``classes`` (n,) are integers; boxes of different classes do not suppress each other. After
        the first ``most`` kept boxes, the result is unspecified.
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

    # -- few candidate pairs: list them all -------------------------------------------------------

    def _close_pairs(self, boxes: Corners, classes: Array | None) -> tuple[Array, Array] | None:
        """Return a superset of the overlapping pairs; None if there are too many.

        If two boxes overlap by more than the threshold, the right one begins within the first ``1 -
        threshold`` of the left one's width. Sorting by left sides thus finds all candidates.
        """
        xp, count = self.xp, len(boxes.left)
        left, right = boxes.left.astype("float64"), boxes.right.astype("float64")
        reach = left + (1 - self.threshold) * (right - left)
        # Margins for what rounding in the boxes' own dtype can change about an overlap.
        reach += 1e-4 * abs(right - left) + 1e-6 * (abs(left) + abs(right))
        span = float(reach.max() - left.min())
        if not math.isfinite(span):
            return None
        if classes is not None:
            # Shifting each class to a separate part of the axis keeps classes apart.
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
        # The first box of each pair: the running sum counts the boxes whose pairs have begun.
        one = xp.cumsum(xp.bincount(starts[counts > 0], minlength=total)[:total]) - 1
        one = place[counts > 0][one]
        other = one + 1 + xp.arange(total) - starts[one]
        one, other = order[one], order[other]
        meet = boxes.bottom[one] > boxes.top[other]
        one, other = one[meet], other[meet]
        return xp.minimum(one, other), xp.maximum(one, other)

    def _by_pairs(self, count: int, first: Array, later: Array) -> Array:
        """Repeat the suppression until nothing changes; each round settles at least one more
        box."""
        stays = self.xp.ones(count, dtype="bool")
        while True:
            again = self.xp.ones(count, dtype="bool")
            again[later[stays[first]]] = False
            if (again == stays).all():
                return stays
            stays = again

    # -- many: compare a block of boxes with all that remain --------------------------------------

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
