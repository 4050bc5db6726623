"""Reads untrusted tar files: of a limited size, without links, and with paths that stay inside."""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from app.errors.tree import Damaged, ServiceError
from app.files.archive_entries import checked_path, shortened

__all__ = ["GZIP_MAGIC", "open_tar", "tar_entries"]

GZIP_MAGIC = b"\x1f\x8b"

_LARGEST_READ = 1 << 22
_MOST_ENTRIES = 1 << 20


@contextmanager
def open_tar(
    file: BinaryIO, field: str, wanted: str, limit: int, too_large: Callable[[], ServiceError]
) -> Iterator[tarfile.TarFile]:
    """Open a tar file, compressed by gzip or not, for the block.

    Args:
        file: at its beginning.
        field: name of the file, for errors.
        wanted: what the file should be, for errors.
        limit: most bytes that it may unpack to.
        too_large: returns the error for more.

    Raises:
        tarfile.TarError, EOFError, zlib.error: it is not a tar file, or not whole.
    """
    is_packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    file.seek(0)
    stream: BinaryIO | gzip.GzipFile = gzip.GzipFile(fileobj=file) if is_packed else file
    limited = _Limited(stream, field, wanted, limit, too_large)
    with tarfile.open(fileobj=limited, mode="r:") as tar:
        yield tar


def tar_entries(
    archive: tarfile.TarFile, field: str, most: int = _MOST_ENTRIES
) -> Iterator[tuple[str, tarfile.TarInfo]]:
    """Yield the files of an archive with their paths, in their stored order.

    Raises:
        Damaged: there are too many, or one is a link, a device or outside the archive.
    """
    for count, info in enumerate(archive):
        if count >= most:
            raise Damaged(field, f"over {most:,} entries", "fewer")
        kind = stat.S_IFREG if info.isreg() else stat.S_IFDIR if info.isdir() else stat.S_IFLNK
        path = checked_path(info.name, kind, field)
        if info.issparse():
            raise Damaged(field, f"entry {shortened(path)} with holes", "plain files")
        if info.isreg():
            yield path, info


class _Limited(io.BufferedIOBase):
    """A stream that refuses headers and sizes beyond a sane limit."""

    def __init__(
        self,
        stream: BinaryIO | gzip.GzipFile,
        field: str,
        wanted: str,
        limit: int,
        too_large: Callable[[], ServiceError],
    ) -> None:
        self._stream = stream
        self._field = field
        self._wanted = wanted
        self._limit = limit
        self._too_large = too_large

    def read(self, size: int | None = -1) -> bytes:
        """Return bytes."""
        if size is None or size < 0 or size > _LARGEST_READ:
            raise Damaged(self._field, "an oversized header", self._wanted)
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move."""
        if offset > self._limit:
            raise self._too_large()
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
