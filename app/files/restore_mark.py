"""The mark of a data directory whose restore has not ended: only a part of the backup is there.

<data>/.restoring           which backup; written first and removed last
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.errors.tree import Damaged, NotFound, StartError
from app.files.durable_files import list_hidden, sync_directory, write_durably
from app.files.json_records import encode_record, read_record

__all__ = [
    "RestoreMark",
    "check_restored",
    "put_mark",
    "read_mark",
    "remove_mark",
    "remove_parts_of_mark",
]

_FILE = ".restoring"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreMark:
    """Which backup is being restored.

    Attributes:
        source: its folder, as an absolute path.
        sha256: of its manifest.
    """

    source: str
    sha256: str


def check_restored(data_dir: Path) -> None:
    """Refuse a data directory that has only a part of its backup.

    Raises:
        StartError: with what to do.
    """
    mark = read_mark(data_dir)
    if mark is not None:
        raise StartError(
            f"the restore of {data_dir} was interrupted, and only a part of the backup is there: "
            f"'modserve restore {mark.source} --data-dir {data_dir}' goes on with it. To start "
            f"without the backup, delete {data_dir}"
        )


def read_mark(data_dir: Path) -> RestoreMark | None:
    """Return the mark of an unfinished restore, None if there is none.

    Raises:
        StartError: the mark cannot be read.
    """
    path = data_dir / _FILE
    try:
        return read_record(RestoreMark, path)
    except NotFound:
        return None
    except Damaged as error:
        raise StartError(
            f"a restore of {data_dir} was interrupted, and {path} does not tell which backup it "
            f"was of ({error}): delete {data_dir} and restore again"
        ) from None


def put_mark(data_dir: Path, mark: RestoreMark) -> None:
    """Mark a directory, before anything is restored into it."""
    write_durably(data_dir / _FILE, encode_record(mark))


def remove_mark(data_dir: Path) -> None:
    """Remove the mark, after everything is in place."""
    (data_dir / _FILE).unlink(missing_ok=True)
    sync_directory(data_dir)


def remove_parts_of_mark(data_dir: Path) -> None:
    """Remove what is left of a mark that was never completed: nothing was restored after it."""
    for hidden in list_hidden(data_dir):
        if hidden.target == _FILE:
            hidden.path.unlink(missing_ok=True)
