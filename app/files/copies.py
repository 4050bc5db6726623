"""Second names for files that are never rewritten: by hard link, or else by a copy."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from app.files.durable_files import sync_directory, sync_file

__all__ = ["link_or_copy", "sync_tree"]

_NO_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP})


def link_or_copy(source: Path, target: Path) -> None:
    """Hard-link a file, or copy it to another file system; create the target's directory."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        shutil.copyfile(source, target)


def sync_tree(root: Path) -> None:
    """Sync all files and directories under a directory to disk."""
    for directory, _, names in os.walk(root):
        for name in names:
            sync_file(Path(directory) / name)
        sync_directory(Path(directory))
