"""Errors of the disk below the database.

ServiceError
└── Unavailable
    ├── DiskFailed         503  the disk of the database reports errors
    └── RowDamaged         503  a row of it is damaged
"""

from __future__ import annotations

from pathlib import Path

from app.errors.tree import StartError, Unavailable

__all__ = ["DiskFailed", "RowDamaged"]


class DiskFailed(Unavailable, StartError):
    """The disk reports errors. Its text is for the operator; clients only learn that."""

    def __init__(self, path: Path | None, cause: str) -> None:
        super().__init__("the disk of the server's database fails; its log tells what to do")
        self.args = (
            f"the disk of the database {path} cannot be read or written "
            f"({' '.join(cause.split())}). The database itself may be whole, so keep it: look at "
            "the kernel's log and the disk's health, copy the data directory to a sound disk and "
            "start there, or restore a backup",
        )


class RowDamaged(Unavailable):
    """A row of the database is damaged, and all others can be read."""

    def __init__(self, what: str, name: object, reason: object, advice: str) -> None:
        self.reason = f"its row in the server's database is damaged ({reason})"
        super().__init__(f"{what} {name}: {self.reason}; {advice}")

    def headers(self) -> dict[str, str]:
        """Return no headers: retrying does not help."""
        return {}
