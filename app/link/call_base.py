"""Base classes of all calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

from app.domain.codec import STRICT_FIELDS

__all__ = ["OfModule", "Strict"]


class Strict:
    """Rejects unknown fields."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS


@dataclass(frozen=True, slots=True, kw_only=True)
class OfModule(Strict):
    """A call on one module."""

    module: str
