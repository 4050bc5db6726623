"""Files of the operator, read in place from the folders that the settings allow.

modserve never writes or removes such a file. It may change without notice, so before each use it is
compared with what it was.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from app.domain.dataset import DatasetRecord
from app.errors.tree import Conflict, Invalid
from app.files.durable_files import digest_file

__all__ = ["SETTING", "check_unchanged", "find_file"]

SETTING = "MODSERVE_DATASET_FOLDERS"


def find_file(path: str, folders: Iterable[Path]) -> Path:
    """Return the file that a path leads to, with symbolic links resolved.

    Raises:
        Invalid: the path is not absolute, leads out of the allowed folders, or is not a regular
            file.
    """
    expected = f"the absolute path of a file under a folder that {SETTING} names"
    if not os.path.isabs(path) or "\0" in path:
        raise Invalid("path", path, expected)
    real = Path(os.path.realpath(path))
    # Do not reveal whether a file outside the folders exists.
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
    """Return the path of a dataset's file if it is unchanged since the dataset was added.

    If only its modification time differs, the file is read and its digest compared.

    Raises:
        Conflict: it is missing, changed, or no longer under an allowed folder.
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
        f"the file {record.path} of dataset {record.name!r} has changed since it was added: "
        f"expected {expected}. Restore it, or add it again by POST /v1/datasets"
    )
