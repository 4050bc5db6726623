"""Versions of models: at present each has one, the module as it is."""

from __future__ import annotations

from app.domain.module import ModuleRecord
from app.errors import NotFound

__all__ = ["LIVE", "check_version", "number_of", "versions_of"]

LIVE = "live"


def versions_of(record: ModuleRecord) -> list[str]:
    """Return the versions of a model that are served."""
    return [LIVE]


def number_of(version: str) -> str:
    """Return a version as statistics name it: perf_analyzer ends at one that is no number."""
    return "0" if version == LIVE else version


def check_version(record: ModuleRecord, version: str | None) -> str:
    """Return the version asked for, or that which answers where none is; raise NotFound."""
    served = versions_of(record)
    if version is None:
        return served[0]
    if version not in served:
        hint = f"there are: {', '.join(served)}"
        raise NotFound(f"version of model {record.name!r}", version, hint)
    return version
