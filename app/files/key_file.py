"""The file of a data directory's API keys, which the command line writes and servers read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from app.domain.api_key import ApiKey, KeyList
from app.errors.tree import NotFound
from app.files.durable_files import locked, make_directory, write_durably
from app.files.json_records import encode_record, read_record

__all__ = ["FileStamp", "KeyFile"]

_OWNER_ONLY = 0o600
_LOCK_SECONDS = 10.0

FileStamp: TypeAlias = tuple[int, int, int, int] | None
"""Changes with every change of the file; None if there is no file."""


class KeyFile:
    """``keys.json``: readable only by its owner, replaced atomically, changed under a lock."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self.path = data_dir / "keys.json"

    def stamp(self) -> FileStamp:
        """Return a value that differs for every version of the file."""
        try:
            found = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size

    def read(self) -> tuple[ApiKey, ...]:
        """Return all keys.

        Raises:
            Damaged: the file was altered, or cannot be read.
        """
        try:
            return read_record(KeyList, self.path).keys
        except NotFound:
            return ()

    def change(self, step: Callable[[tuple[ApiKey, ...]], tuple[ApiKey, ...]]) -> None:
        """Replace the keys by the result of ``step``, under the lock.

        Raises:
            Unavailable: another process has been changing the keys the whole time.
        """
        make_directory(self._data_dir, parents=True, mode=0o700)
        with locked(self._lock(), seconds=_LOCK_SECONDS):
            content = encode_record(KeyList(step(self.read())))
            write_durably(self.path, content, mode=_OWNER_ONLY)
            self._give_to_owner(self.path)

    def _lock(self) -> Path:
        path = self._data_dir / "keys.lock"
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, _OWNER_ONLY))
        self._give_to_owner(path)
        return path

    def _give_to_owner(self, path: Path) -> None:
        """Give a file written by root to the data directory's owner, under whom the server runs."""
        if os.geteuid() == 0:
            owner = os.stat(self._data_dir)
            os.chown(path, owner.st_uid, owner.st_gid)
