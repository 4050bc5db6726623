"""Files of an operator that are read where they lie, under the folders that the settings allow.

Nothing of ours ever writes or removes one. Such a file may change without our knowing, so it is
compared with what it was before it is read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from app.domain.dataset import DatasetRecord
from app.errors import Conflict, Invalid
from app.files.durable_files import digest_file

__all__ = ["SETTING", "check_unchanged", "find_file"]

SETTING = "MODSERVE_DATASET_FOLDERS"


def find_file(path: str, folders: Iterable[Path]) -> Path:
    """Return the file that a path leads to, without symbolic links in it.

    Raises:
        Invalid: it is not absolute, leads out of the folders, or to no regular file.
    """
    expected = f"the absolute path of a file under a folder that {SETTING} names"
    if not os.path.isabs(path) or "\0" in path:
        raise Invalid("path", path, expected)
    real = Path(os.path.realpath(path))
    # Whether it is there is nobody's business outside the folders.
    if not any(real.is_relative_to(os.path.realpath(folder)) for folder in folders):
        raise Invalid("path", path, expected)
    try:
        if not stat.S_ISREG(real.stat().st_mode):
            raise Invalid("path", path, "a regular file")
        with real.open("rb"):
            pass
    except OSError as error:
        raise Invalid("path", path, f"a file that can be read ({error.strerror})") from None
    return real


def check_unchanged(record: DatasetRecord, folders: Iterable[Path]) -> Path:
    """Return where a dataset's file lies; it is what it was when the dataset was added.

    A file of the same size that was written since is read, to compare its digest.

    Raises:
        Conflict: it is gone, changed, or no longer under a folder that is allowed.
    """
    assert record.path is not None
    try:
        found = find_file(record.path, folders)
    except Invalid as error:
        raise _changed(record, error.errors[0].expected) from None
    status = found.stat()
    if str(found) != record.path:
        raise _changed(record, f"a file that is not a symbolic link; it leads to {found}")
    if status.st_size != record.size:
        raise _changed(record, f"{record.size:,} bytes; it has {status.st_size:,}")
    if status.st_mtime_ns != record.modified_ns:
        digest = digest_file(found)
        if digest.sha256 != record.sha256:
            raise _changed(record, f"SHA-256 {record.sha256}; it has {digest.sha256}")
    return found


def _changed(record: DatasetRecord, expected: str) -> Conflict:
    return Conflict(
        f"the file {record.path} of dataset {record.name!r} is not what was added: expected "
        f"{expected}. Put it back, or add it anew by POST /v1/datasets"
    )
