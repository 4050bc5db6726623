"""Rows whose JSON or text was damaged on the disk: they are put aside, and the others read.

SQLite has no digests: a flipped bit in a page can go unnoticed until a value is decoded. A value
that cannot be decoded is read as ``Unreadable``, and a row that has one raises ``RowDamaged``.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

import orjson
from sqlalchemy import Row

from app.errors.database import RowDamaged
from app.errors.tree import Invalid

__all__ = [
    "Unreadable",
    "mapping",
    "names_row",
    "read_json",
    "read_text",
    "sound",
    "value_or_damage",
]

_log = logging.getLogger(__name__)

_LONGEST_QUOTE = 80

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The text of a JSON column that is not JSON."""

    text: str

    def __str__(self) -> str:
        return self.text


def read_text(data: bytes) -> str:
    """Decode a text of SQLite; one damaged byte must not keep a query from its other rows."""
    return data.decode("utf-8", "backslashreplace")


def read_json(text: Any) -> Any:
    """Decode a JSON column; return Unreadable if that is impossible."""
    try:
        return orjson.loads(text)
    except ValueError:
        return Unreadable(str(text))  # SQLite makes numbers of texts that look like one


def mapping(value: Any) -> Any:
    """Return the value of a JSON column that is an object; raise TypeError for any other."""
    if isinstance(value, dict):
        return value
    raise TypeError(f"got {str(value)[:_LONGEST_QUOTE]!r}, expected a JSON object")


def names_row(
    what: str, key: str, advice: str
) -> Callable[[Callable[Concatenate[Row[Any], P], T]], Callable[Concatenate[Row[Any], P], T]]:
    """Make a function that builds a value from a row raise RowDamaged if the row is damaged.

    Args:
        what: the kind of the value.
        key: the column that names the row.
        advice: what to do, or what will be done.
    """

    def decorate(
        build: Callable[Concatenate[Row[Any], P], T],
    ) -> Callable[Concatenate[Row[Any], P], T]:
        @functools.wraps(build)
        def checked(row: Row[Any], /, *arguments: P.args, **options: P.kwargs) -> T:
            try:
                return build(row, *arguments, **options)
            except (Invalid, LookupError, TypeError, ValueError, AttributeError) as error:
                raise RowDamaged(what, row._mapping[key], error, advice) from error

        return checked

    return decorate


def value_or_damage(row: Row[Any], build: Callable[[Row[Any]], T]) -> T | RowDamaged:
    """Return the value of a row, or what is wrong with it."""
    try:
        return build(row)
    except RowDamaged as error:
        return error


def sound(rows: Iterable[Row[Any]], build: Callable[[Row[Any]], T]) -> Iterator[T]:
    """Yield the values of the rows that are not damaged; warn of each other one, once."""
    for row in rows:
        try:
            yield build(row)
        except RowDamaged as error:
            _warn(str(error))


@functools.lru_cache(maxsize=1000)
def _warn(text: str) -> None:
    _log.warning("%s", text)
