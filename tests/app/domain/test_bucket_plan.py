"""Bucket boundaries with the least padding, against exhaustive search."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.bucket_plan import choose_boundaries, merge_rare, padded_total

LENGTHS = st.integers(1, 40)
COUNTS = st.dictionaries(LENGTHS, st.integers(1, 1000), max_size=15)


def least_by_trying_all(
    counts: Mapping[int, int], candidates: Collection[int], most: int, fixed: Collection[int]
) -> int:
    """Return the least padding of any ``most`` boundaries or fewer."""
    must = {*fixed, max({*candidates, *fixed})}
    others = [one for one in {*candidates} if one not in must]
    return min(
        padded_total(counts, {*must, *chosen})
        for more in range(max(most - len(must), 0) + 1)
        for chosen in combinations(others, min(more, len(others)))
    )


@given(
    COUNTS,
    st.sets(LENGTHS, min_size=1, max_size=9),
    st.integers(1, 10),
    st.sets(LENGTHS, max_size=2),
)
@settings(deadline=None)
def test_no_other_boundaries_pad_less(
    counts: dict[int, int], candidates: set[int], most: int, fixed: set[int]
) -> None:
    chosen = choose_boundaries(counts, candidates, most, fixed)
    assert list(chosen) == sorted({*chosen})
    assert {*fixed, max({*candidates, *fixed})} <= {*chosen} <= {*candidates, *fixed}
    assert len(chosen) <= max(most, len({*fixed, chosen[-1]}))
    expected = least_by_trying_all(counts, candidates, most, fixed)
    assert padded_total(counts, chosen) == expected
    for fewer in range(1, len(chosen)):
        again = choose_boundaries(counts, candidates, fewer, fixed)
        if len(again) < len(chosen):
            assert padded_total(counts, again) > expected, "one of the boundaries saves nothing"


@given(COUNTS, st.integers(1, 15))
def test_merged_lengths_keep_their_count_and_never_shrink(
    counts: dict[int, int], most: int
) -> None:
    merged = merge_rare(counts, most)
    assert len(merged) <= most
    assert sum(merged.values()) == sum(counts.values())
    assert set(merged) <= set(counts)
    for length in counts:
        at_least = sum(count for one, count in counts.items() if one >= length)
        assert sum(count for one, count in merged.items() if one >= length) >= at_least


def test_two_groups_of_lengths_get_two_boundaries() -> None:
    counts = {7: 10, 8: 20, 9: 5, 27: 3, 29: 9}
    assert choose_boundaries(counts, counts, 2) == (9, 29)
    assert choose_boundaries(counts, counts, 1) == (29,)
    assert choose_boundaries(counts, counts, 50) == (7, 8, 9, 27, 29)
    assert choose_boundaries(counts, (10, 30), 5) == (10, 30)
    assert choose_boundaries(counts, counts, 2, fixed=(20, 40)) == (20, 40)


def test_without_observations_only_fixed_boundaries_and_the_largest_remain() -> None:
    assert choose_boundaries({}, (5, 10, 15), 3) == (15,)
    assert choose_boundaries({}, (5, 10, 15), 3, fixed=(5,)) == (5, 15)


@pytest.mark.parametrize(("length", "steps"), [(1, 5), (5, 5), (6, 10), (11, 0)])
def test_each_length_is_padded_to_the_next_boundary(length: int, steps: int) -> None:
    assert padded_total({length: 1}, (10, 5)) == steps
