"""Streams a request's body to disk; it is counted, hashed and limited on the way."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

from app.domain.checkpoint import FileDigest
from app.errors.tree import TooLarge
from app.files.durable_files import hidden_sibling, make_directory, tell_full_disk

__all__ = ["Upload", "uploading"]

_BLOCK = 1 << 20


class Upload:
    """A hidden temporary file, removed at the end of a ``with`` unless it was kept.

    It is locked, so that another server's recovery leaves it alone.

    Attributes:
        path: the temporary file.
    """

    @tell_full_disk()
    def __init__(self, target: Path, *, limit: int, what: str, setting: str) -> None:
        """Open a temporary file next to its target.

        Args:
            target: the final path.
            limit: limit on bytes.
            what: name of the upload for errors: ``dataset 'mnist'``.
            setting: the setting that holds the limit.
        """
        make_directory(target.parent)  # without its parent: the module may have been deleted
        self.path, self._file = _open_locked(target)
        self._limit = limit
        self._what = what
        self._setting = setting
        self._size = 0
        self._digest = hashlib.sha256()

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._size

    def __enter__(self) -> Upload:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the temporary file."""
        self._file.close()
        self.path.unlink(missing_ok=True)

    def expect(self, size: int | None) -> None:
        """Refuse a body by its announced length, before any of it is read."""
        if size is not None and size > self._limit:
            raise self._too_large(size)

    @tell_full_disk()
    def write(self, data: bytes) -> None:
        """Append bytes; raise TooLarge past the limit."""
        self._size += len(data)
        if self._size > self._limit:
            raise self._too_large(None)
        self._digest.update(data)
        self._file.write(data)

    async def receive(self, chunks: AsyncIterable[bytes]) -> None:
        """Append all chunks; the disk is written to in a thread, in large blocks."""
        block = bytearray()
        async for chunk in chunks:
            block += chunk
            if len(block) >= _BLOCK:
                await asyncio.to_thread(self.write, bytes(block))
                block.clear()
        await asyncio.to_thread(self.write, bytes(block))

    @tell_full_disk()
    def finish(self) -> FileDigest:
        """Sync all bytes to disk; return size and digest."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return FileDigest(size=self._size, sha256=self._digest.hexdigest())

    def _too_large(self, got: int | None) -> TooLarge:
        return TooLarge(
            f"{self._what}, in bytes", got=got, limit=self._limit, setting=self._setting
        )


@asynccontextmanager
async def uploading(begin: Callable[[], Upload]) -> AsyncIterator[Upload]:
    """Open an upload for the block and remove it afterwards, both off the event loop."""
    upload = await asyncio.to_thread(begin)
    try:
        yield upload
    finally:
        await asyncio.to_thread(upload.close)


def _open_locked(target: Path) -> tuple[Path, BinaryIO]:
    while True:
        path = hidden_sibling(target, "upload")
        file = path.open("xb")
        fcntl.flock(file, fcntl.LOCK_EX)
        if path.exists():  # else another server's recovery removed it before it was locked
            return path, file
        file.close()
