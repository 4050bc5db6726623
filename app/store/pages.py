"""Lists in pages: a page ends with the key from which the next one begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from app.errors import Invalid

__all__ = ["LARGEST_PAGE", "Page", "check_limit", "page_of"]

T = TypeVar("T")

LARGEST_PAGE = 200


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list.

    Attributes:
        items: in the list's order.
        next_cursor: to be sent back for the next page; None if this is the last.
    """

    items: tuple[T, ...]
    next_cursor: str | None


def check_limit(limit: int) -> int:
    """Return the size of a page if it can be one, else raise Invalid."""
    if 1 <= limit <= LARGEST_PAGE:
        return limit
    raise Invalid("limit", limit, f"1 to {LARGEST_PAGE}")


def page_of(found: Sequence[T], limit: int, key: Callable[[T], object]) -> Page[T]:
    """Make a page from up to ``limit + 1`` items: the one too many tells that more follow."""
    items = tuple(found[:limit])
    more = len(found) > limit
    return Page(items, str(key(items[-1])) if more else None)
