"""Which buckets pad the least: boundaries of lengths, chosen by dynamic programming."""

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
    """Return ascending boundaries such that lengths padded to the next one are the least in all.

    The largest candidate is always one of them. Among equals the fewest are taken.

    Args:
        counts: how often each length comes; those over the largest candidate do not count.
        candidates: what may be a boundary; at least one.
        most: boundaries at most; as many as are fixed where that is more.
        fixed: candidates that are boundaries whatever comes.
    """
    ends = sorted({*candidates, *fixed})
    must = {*fixed, ends[-1]}
    totals = _totals(counts, ends)
    must_before = [0, *accumulate(end in must for end in ends)]

    def cost(begin: int, end: int) -> float:
        """Return the steps of lengths over one end, padded to another; -1 begins with none."""
        if must_before[end] > must_before[begin + 1]:
            return math.inf
        return ends[end] * (totals[end] - (totals[begin] if begin >= 0 else 0))

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
    """Return the steps that the lengths take, each padded to the next boundary that holds it."""
    ends = sorted(boundaries)
    return sum(
        count * ends[bisect_left(ends, length)]
        for length, count in counts.items()
        if length <= ends[-1]
    )


def merge_rare(counts: Mapping[int, int], most: int) -> dict[int, int]:
    """Return counts of so many lengths at most; what must go is counted with the next longer."""
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
    """Return how many lengths are not over each end."""
    lengths = sorted(counts)
    sums = [0, *accumulate(counts[length] for length in lengths)]
    return [sums[bisect_right(lengths, end)] for end in ends]
