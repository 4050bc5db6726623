"""What is refused for the version that it names.

ServiceError
└── Unavailable
    └── VersionDamaged     503  the version's checkpoint is damaged or gone
"""

from __future__ import annotations

from app.errors import Unavailable

__all__ = ["VersionDamaged"]


class VersionDamaged(Unavailable):
    """A version was asked for whose checkpoint cannot be read; no other one answers for it."""

    def __init__(self, module: str, version: int, reason: str) -> None:
        path = f"/v1/modules/{module}"
        super().__init__(
            f"version {version} of module {module!r} cannot be loaded: {reason}; put its files "
            f"back, or promote another version by POST {path}/versions/{{version}}/promote or "
            f"POST {path}/rollback"
        )

    def headers(self) -> dict[str, str]:
        """Return none: to wait does not help."""
        return {}
