"""Versions of models as the protocol tells of them."""

from __future__ import annotations

from app.domain.module import ModuleRecord
from app.domain.versions import LIVE

__all__ = ["versions_of"]


def versions_of(record: ModuleRecord) -> list[str]:
    """Return the versions of a model that have a part in its serving; others may be asked, too."""
    return [LIVE, *(str(version) for version in sorted(record.versions.in_use()))]
