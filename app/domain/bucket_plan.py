"""Buckets with the least padding: boundaries of lengths, chosen by dynamic programming."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping
from itertools import accumulate, pairwise

__all__ = ["choose_boundaries", "merge_rare", "padded_total"]


def choose_boundaries(
    counts: Mapping[int, int],
    candidates: Collection[int],
    most: int,
    fixed: Collection[int] = (),
) -> tuple[int, ...]:
    """Return ascending boundaries that minimize the total of lengths padded to the next boundary.

    The largest candidate is always one of them. Of equally good sets the smallest is chosen.

    Args:
        counts: how often each length occurs; those over the largest candidate do not count.
        candidates: possible boundaries; at least one.
        most: maximum number of boundaries; raised to the number of fixed ones.
        fixed: candidates that are always boundaries.
    """
    ends = sorted({*candidates, *fixed})
    must = {*fixed, ends[-1]}
    totals = _totals(counts, ends)
    must_before = [0, *accumulate(end in must for end in ends)]

    def cost(begin: int, end: int) -> float:
        """Return the steps of the lengths between two ends, padded to the second; -1 stands for
        no first end.
        """
        if must_before[end] > must_before[begin + 1]:  # it would leave out a fixed one
            return math.inf
        return ends[end] * (totals[end] - (totals[begin] if begin >= 0 else 0))

    # best[end] is the least total for all lengths up to ``end``, which is the last of at most
    # ``count`` boundaries; the largest end is always one, so best[-1] is the answer.
    best = [cost(-1, end) for end in range(len(ends))]
    steps_back: list[list[int]] = []
    chosen, chosen_count = best[-1], 1
    for count in range(2, max(most, len(must)) + 1):
        better, back = best[:], [-1] * len(ends)
        for end in range(1, len(ends)):
            better[end], back[end] = min((best[at] + cost(at, end), at) for at in range(end))
        steps_back.append(back)
        best = better
        if best[-1] < chosen:
            chosen, chosen_count = best[-1], count
    found, at = [len(ends) - 1], len(ends) - 1
    for back in reversed(steps_back[: chosen_count - 1]):
        at = back[at]
        found.append(at)
    return tuple(ends[at] for at in reversed(found))


def padded_total(counts: Mapping[int, int], boundaries: Collection[int]) -> int:
    """Return the total steps of the lengths, each padded to the next boundary."""
    ends = sorted(boundaries)
    return sum(
        count * ends[bisect_left(ends, length)]
        for length, count in counts.items()
        if length <= ends[-1]
    )


def merge_rare(counts: Mapping[int, int], most: int) -> dict[int, int]:
    """Return counts of at most this many lengths; others are merged into the next longer one."""
    merged = dict(sorted(counts.items()))
    while len(merged) > most:
        lengths = list(merged)
        _, length, longer = min(
            (merged[length] * (longer - length), length, longer)
            for length, longer in pairwise(lengths)
        )
        merged[longer] += merged.pop(length)
    return merged


def _totals(counts: Mapping[int, int], ends: list[int]) -> list[int]:
    """Return the number of lengths up to each end."""
    lengths = sorted(counts)
    sums = [0, *accumulate(counts[length] for length in lengths)]
    return [sums[bisect_right(lengths, end)] for end in ends]
