"""Arrays that are monitored while a module trains."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, get_args

__all__ = ["ARRAY_KINDS", "ArrayKind", "NamedArray"]

ArrayKind: TypeAlias = Literal["parameter", "gradient"]
ARRAY_KINDS: tuple[ArrayKind, ...] = get_args(ArrayKind)


class NamedArray(NamedTuple):
    """A parameter, or its gradient."""

    of: ArrayKind
    name: str
