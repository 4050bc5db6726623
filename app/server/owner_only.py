"""What a server writes is for its own user: data directories have mode 0700, their files 0600."""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["hide_from_others"]

_OF_OTHERS = 0o077


def hide_from_others(data_dir: Path) -> None:
    """Make all that this process and its children write accessible to its user alone.

    A data directory of an earlier release, which others could read, is closed too.
    """
    os.umask(_OF_OTHERS)
    try:
        found = data_dir.stat()
    except FileNotFoundError:
        return  # it will be made with that mode
    is_shared = found.st_mode & stat.S_ISVTX  # such as /tmp, which others need
    if found.st_uid == os.geteuid() and not is_shared:
        data_dir.chmod(stat.S_IMODE(found.st_mode) & ~_OF_OTHERS)
