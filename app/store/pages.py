"""Paginated lists: a page ends with the key at which the next one starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import Row

from app.errors.tree import Invalid
from app.store.damage import sound

__all__ = ["LARGEST_PAGE", "Page", "check_limit", "page_of", "page_of_rows"]

T = TypeVar("T")

LARGEST_PAGE = 200


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list.

    Attributes:
        items: in the order of the list.
        next_cursor: send it back for the next page; None on the last page.
    """

    items: tuple[T, ...]
    next_cursor: str | None


def check_limit(limit: int) -> int:
    """Return a valid page size; raise Invalid for any other."""
    if 1 <= limit <= LARGEST_PAGE:
        return limit
    raise Invalid("limit", limit, f"1 to {LARGEST_PAGE}")


def page_of(found: Sequence[T], limit: int, key: Callable[[T], object]) -> Page[T]:
    """Make a page from up to ``limit + 1`` items; an extra item means that more follow."""
    items = tuple(found[:limit])
    more = len(found) > limit
    return Page(items, str(key(items[-1])) if more else None)


def page_of_rows(
    rows: Sequence[Row[Any]],
    limit: int,
    key: Callable[[Row[Any]], object],
    build: Callable[[Row[Any]], T],
) -> Page[T]:
    """Make a page from up to ``limit + 1`` rows, as ``page_of``, without those that are damaged."""
    page = page_of(rows, limit, key)
    return Page(tuple(sound(page.items, build)), page.next_cursor)
