"""Which release of modserve was the last to write in a data directory.

An older one may not know all that a newer one has written, in the records of modules as well as in
the database: it is to say so before it touches anything.

<data>/last-release              such as 0.2.0
"""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

from app.errors import StartError
from app.files.durable_files import write_durably

__all__ = ["check_release", "last_release_file", "note_release"]

_FILE = "last-release"
_NUMBERS = re.compile(r"([0-9]+)\.([0-9]+)")


def last_release_file(data_dir: Path) -> Path:
    """Return where it lies."""
    return data_dir / _FILE


def check_release(data_dir: Path) -> None:
    """Refuse a directory that a newer release has written; those that differ in the last number
    know the same forms.

    Raises:
        StartError: with what to do.
    """
    own, last = version("modserve"), _read(data_dir)
    if last is not None and _numbers(last) > _numbers(own):
        raise StartError(
            f"data directory {data_dir} was last written by modserve {last}, this is {own}, which "
            f"may not know all that lies there: run {last} or newer, or restore the backup that "
            "was made before the upgrade into another directory"
        )


def note_release(data_dir: Path) -> None:
    """Note that this release is going to write in the directory."""
    own = version("modserve")
    if _read(data_dir) != own:
        write_durably(last_release_file(data_dir), f"{own}\n".encode())


def _read(data_dir: Path) -> str | None:
    """Return the release, None if none is noted, or nothing that is one."""
    try:
        text = last_release_file(data_dir).read_text(errors="replace").strip()
    except FileNotFoundError:
        return None
    return text if _NUMBERS.match(text) else None


def _numbers(release: str) -> tuple[int, int]:
    found = _NUMBERS.match(release)
    return (int(found[1]), int(found[2])) if found else (0, 0)
