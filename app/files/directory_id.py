"""The id of a data directory, which keeps it from being used with another directory's database.

<data>/directory-id         the id, once the database has it too
<data>/.directory-id-new    the id, before that
"""

from __future__ import annotations

import uuid
from pathlib import Path

from app.errors.tree import StartError
from app.files.durable_files import rename_durably, write_durably

__all__ = ["new_id", "proposed_id", "read_id", "settle_id", "settled_id_file"]

_FILE = "directory-id"
_NEW = ".directory-id-new"


def read_id(data_dir: Path) -> str | None:
    """Return the id, None if the directory has none yet; raise StartError if it is malformed."""
    return _read(settled_id_file(data_dir))


def settled_id_file(data_dir: Path) -> Path:
    """Return the path of a directory's confirmed id."""
    return data_dir / _FILE


def proposed_id(data_dir: Path) -> str | None:
    """Return the id that ``new_id`` wrote and ``settle_id`` has not confirmed; None without one."""
    return _read(data_dir / _NEW)


def new_id(data_dir: Path) -> str:
    """Write an id for a directory that has none; confirm it once the database has it."""
    identity = proposed_id(data_dir) or uuid.uuid4().hex
    write_durably(data_dir / _NEW, f"{identity}\n".encode())
    return identity


def settle_id(data_dir: Path) -> None:
    """Confirm the id that was written last."""
    rename_durably(data_dir / _NEW, settled_id_file(data_dir))


def _read(path: Path) -> str | None:
    try:
        text = path.read_text(errors="replace").strip()
    except FileNotFoundError:
        return None
    try:
        return uuid.UUID(hex=text).hex
    except ValueError:
        raise StartError(
            f"{path} is damaged: got {text[:40]!r}, expected the directory's id, 32 hexadecimal "
            "digits. Put the id there that the database names (SELECT directory FROM "
            "data_directory); or move the file and the database away, and the next start takes in "
            "what lies in the directory"
        ) from None
