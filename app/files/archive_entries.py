"""Checks of the entries of untrusted archives: no links, and no paths out of the archive."""

from __future__ import annotations

import stat
from pathlib import PurePosixPath

from app.errors.tree import Damaged

__all__ = ["checked_path", "is_system_file", "shortened"]

_USUAL_KINDS = (0, stat.S_IFREG, stat.S_IFDIR)
_LONGEST_WORD = 200


def checked_path(path: str, mode: int, field: str) -> str:
    """Return the path of an entry, with forward slashes.

    Args:
        mode: Unix mode of the entry; 0 if the archive does not give one.
        field: name of the archive, for errors.

    Raises:
        Damaged: the path leads out of the archive, or the entry is a link or device.
    """
    path = path.replace("\\", "/")
    if path.startswith("/") or ".." in PurePosixPath(path).parts or ":" in path.partition("/")[0]:
        raise Damaged(field, f"entry {shortened(path)}", "paths inside the archive")
    if stat.S_IFMT(mode) not in _USUAL_KINDS:
        raise Damaged(field, f"entry {shortened(path)}, a link or device", "files and folders")
    return path


def is_system_file(path: str) -> bool:
    """Return whether an entry is a file that systems add by themselves, such as ``__MACOSX``."""
    parts = PurePosixPath(path).parts
    return "__MACOSX" in parts or any(part.startswith(".") for part in parts)


def shortened(text: object) -> str:
    """Return text from an archive, cut to a length that an error message can repeat."""
    words = "" if text is None else str(text)
    return words if len(words) <= _LONGEST_WORD else f"{words[:_LONGEST_WORD]}…"
