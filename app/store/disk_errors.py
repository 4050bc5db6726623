"""Tells a disk that fails from a database that is damaged."""

from __future__ import annotations

import sqlite3
from pathlib import Path

__all__ = ["disk_error", "is_disk_error"]

_CHUNK = 1 << 20


def is_disk_error(error: BaseException | None) -> bool:
    """Return whether an error of SQLite says that the disk failed."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF == sqlite3.SQLITE_IOERR


def disk_error(path: Path) -> OSError | None:
    """Return why a file cannot be read through, None if it can: a check of SQLite says of a page
    that the disk does not return what it says of a damaged one."""
    try:
        with path.open("rb") as file:
            while file.read(_CHUNK):
                pass
    except OSError as error:
        return error
    return None
