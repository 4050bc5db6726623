"""The entries of archives from strangers: files that stay where they are unpacked, no links."""

from __future__ import annotations

import stat
from pathlib import PurePosixPath

from app.errors import Damaged

__all__ = ["checked_path", "is_beside_the_point", "shortened"]

_USUAL_KINDS = (0, stat.S_IFREG, stat.S_IFDIR)
_LONGEST_WORD = 200


def checked_path(path: str, mode: int, field: str) -> str:
    """Return the path of an entry, with slashes.

    Args:
        mode: of the file, as the system has it; 0 if the archive says none.
        field: of the archive, for errors.

    Raises:
        Damaged: it leads out of the archive, or is a link or device.
    """
    path = path.replace("\\", "/")
    if path.startswith("/") or ".." in PurePosixPath(path).parts or ":" in path.partition("/")[0]:
        raise Damaged(field, f"entry {shortened(path)}", "paths inside the archive")
    if stat.S_IFMT(mode) not in _USUAL_KINDS:
        raise Damaged(field, f"entry {shortened(path)}, a link or device", "files and folders")
    return path


def is_beside_the_point(path: str) -> bool:
    """Return whether an entry is what systems put into archives for themselves."""
    parts = PurePosixPath(path).parts
    return "__MACOSX" in parts or any(part.startswith(".") for part in parts)


def shortened(text: object) -> str:
    """Return what an archive says, as short as an answer can repeat it."""
    words = "" if text is None else str(text)
    return words if len(words) <= _LONGEST_WORD else f"{words[:_LONGEST_WORD]}…"
