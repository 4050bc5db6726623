"""Untrusted zip archives, opened only if their directory is of a sane size."""

from __future__ import annotations

import io
import zipfile
from typing import IO

from app.errors.tree import Damaged

__all__ = ["DIRECTORY_BYTES", "STORED_OR_DEFLATED", "open_zip"]

DIRECTORY_BYTES = 1 << 20
"""Largest directory, enough for 10,000 arrays; each entry takes a kilobyte of memory."""

STORED_OR_DEFLATED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""The compression methods that numpy.savez and savez_compressed use."""


def open_zip(
    stream: IO[bytes], name: str, directory_bytes: int = DIRECTORY_BYTES
) -> zipfile.ZipFile:
    """Open an archive whose entries have distinct names and are stored or deflated.

    Args:
        stream: the file.
        name: name of the field, for errors.
        directory_bytes: largest allowed size of the directory.

    Raises:
        Damaged: the directory is too large, or an entry is not allowed.
        zipfile.BadZipFile: it is not an archive; ``zipfile`` raises other errors too.
    """
    cautious = _CautiousFile(stream, name, directory_bytes)
    archive = zipfile.ZipFile(cautious)
    cautious.is_opening = False
    names = set()
    for entry in archive.infolist():
        if entry.filename in names:
            raise Damaged(name, f"entry {entry.filename!r} twice", "entries of distinct names")
        if entry.compress_type not in STORED_OR_DEFLATED:
            got = f"compression {entry.compress_type} of {entry.filename!r}"
            raise Damaged(name, got, "stored or deflated entries")
        names.add(entry.filename)
    return archive


class _CautiousFile(io.BufferedIOBase):
    """Refuses large reads while the archive is being opened, when only the directory is read."""

    def __init__(self, stream: IO[bytes], name: str, directory_bytes: int) -> None:
        self._stream = stream
        self._limit = directory_bytes
        self._name = name
        self.is_opening = True

    def read(self, size: int | None = -1) -> bytes:
        """Return bytes."""
        if not self.is_opening:
            return self._stream.read(-1 if size is None else size)
        few = self._limit + 1
        data = self._stream.read(few if size is None or size < 0 else min(size, few))
        if len(data) > self._limit:
            got = f"an archive whose directory has over {self._limit:,} bytes"
            raise Damaged(self._name, got, "one with fewer files")
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move."""
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._stream.tell()

    def seekable(self) -> bool:
        """Return True."""
        return True

    def readable(self) -> bool:
        """Return True."""
        return True
