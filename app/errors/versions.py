"""Requests refused because of the version that they name.

ServiceError
└── Unavailable
    └── VersionDamaged     503  the version's checkpoint is damaged or gone
"""

from __future__ import annotations

from app.errors.tree import Unavailable

__all__ = ["VersionDamaged"]


class VersionDamaged(Unavailable):
    """The checkpoint of the requested version cannot be read; no other version is used instead."""

    def __init__(self, module: str, version: int, reason: str) -> None:
        path = f"/v1/modules/{module}"
        super().__init__(
            f"version {version} of module {module!r} cannot be loaded: {reason}; restore its "
            f"files, or promote another version by POST {path}/versions/{{version}}/promote or "
            f"POST {path}/rollback"
        )

    def headers(self) -> dict[str, str]:
        """Return no headers: retrying does not help."""
        return {}
