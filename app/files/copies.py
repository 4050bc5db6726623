"""Files that are never written again, put under another name: by a link, or byte for byte."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from app.files.durable_files import sync_directory, sync_file

__all__ = ["link_or_copy", "sync_tree"]

_NO_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP})


def link_or_copy(source: Path, target: Path) -> None:
    """Give a file a second name; on another file system copy it. Its directory is made."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        shutil.copyfile(source, target)


def sync_tree(root: Path) -> None:
    """Return when all files under a directory, and their names, are on the disk."""
    for directory, _, names in os.walk(root):
        for name in names:
            sync_file(Path(directory) / name)
        sync_directory(Path(directory))
