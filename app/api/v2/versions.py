"""Versions of models as the protocol lists them."""

from __future__ import annotations

from app.domain.module import ModuleRecord
from app.domain.versions import LIVE

__all__ = ["versions_of"]


def versions_of(record: ModuleRecord) -> list[str]:
    """Return the versions of a model that take part in serving; others may be requested too."""
    return [LIVE, *(str(version) for version in sorted(record.versions.in_use()))]
