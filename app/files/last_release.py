"""The release of modserve that last wrote in a data directory.

An older release may not understand everything in the records and the database. It must refuse to
start before it touches anything.

<data>/last-release              such as 0.2.0
"""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

from app.errors.tree import StartError
from app.files.durable_files import write_durably

__all__ = ["check_release", "last_release_file", "note_release"]

_FILE = "last-release"
_NUMBERS = re.compile(r"([0-9]+)\.([0-9]+)")


def last_release_file(data_dir: Path) -> Path:
    """Return the path of the file that names the release."""
    return data_dir / _FILE


def check_release(data_dir: Path) -> None:
    """Refuse a directory that a newer release has written.

    Releases that differ only in the last number use the same formats.

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
    """Record that this release is going to write in the directory."""
    own = version("modserve")
    if _read(data_dir) != own:
        write_durably(last_release_file(data_dir), f"{own}\n".encode())


def _read(data_dir: Path) -> str | None:
    """Return the release, None if none is recorded or the file is unreadable."""
    try:
        text = last_release_file(data_dir).read_text(errors="replace").strip()
    except FileNotFoundError:
        return None
    return text if _NUMBERS.match(text) else None


def _numbers(release: str) -> tuple[int, int]:
    found = _NUMBERS.match(release)
    return (int(found[1]), int(found[2])) if found else (0, 0)
