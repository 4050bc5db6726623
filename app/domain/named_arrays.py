"""What is looked at while a module trains."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

__all__ = ["ArrayKind", "NamedArray"]

ArrayKind: TypeAlias = Literal["parameter", "gradient"]


class NamedArray(NamedTuple):
    """A parameter, or its gradient."""

    of: ArrayKind
    name: str
