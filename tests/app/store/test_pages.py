"""Paged lists: nothing is left out or repeated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors.tree import Invalid
from app.store.pages import LARGEST_PAGE, check_limit, page_of


@given(st.integers(0, 30), st.integers(1, 12))
def test_pages_together_are_the_list(count: int, limit: int) -> None:
    rows = list(range(count))
    seen: list[int] = []
    cursor: str | None = "-1"
    while cursor is not None:
        found = [row for row in rows if row > int(cursor)][: limit + 1]
        page = page_of(found, limit, key=lambda row: row)
        assert len(page.items) == min(limit, len(found))
        seen += page.items
        cursor = page.next_cursor
    assert seen == rows


def test_a_full_last_page_has_no_next() -> None:
    assert page_of([1, 2], 2, key=str).next_cursor is None
    assert page_of([1, 2, 3], 2, key=str).next_cursor == "2"


@pytest.mark.parametrize("limit", [0, -1, LARGEST_PAGE + 1])
def test_invalid_sizes_are_refused(limit: int) -> None:
    with pytest.raises(Invalid, match=f"limit: got {limit}, expected 1 to 200"):
        check_limit(limit)
    assert check_limit(LARGEST_PAGE) == LARGEST_PAGE
