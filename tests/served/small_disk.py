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
    """Mount a tmpfs of this size and yield its folder; skip where mounting is not allowed."""
    folder = parent / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a tmpfs is not allowed here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Fill up a disk; return the file that takes the space."""
    path = disk / "filler"
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return path
