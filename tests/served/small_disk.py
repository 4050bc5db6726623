"""A disk that fills up quickly."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["fill", "mounted_disk"]


@contextmanager
def mounted_disk(parent: Path, mebibytes: int) -> Iterator[Path]:
    """Yield the folder of a disk of this size; skip where mounting is not allowed."""
    folder = parent / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this machine does not let us mount a disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Fill up a disk; return the file that does."""
    path = disk / "filler"
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return path
