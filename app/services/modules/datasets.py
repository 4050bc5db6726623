"""Uploads, validates, stores, previews and deletes datasets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy.typing as npt

from app.domain.checkpoint import FileDigest
from app.domain.dataset import DatasetKind, DatasetRecord
from app.domain.names import check_name
from app.errors.tree import Damaged, Invalid, NotFound, TooLarge
from app.files.dataset_directory import DatasetDirectory
from app.files.dataset_formats import describe_file, first_rows, preview_file
from app.files.dataset_limits import SETTING
from app.files.durable_files import digest_file, tell_full_disk
from app.files.operator_files import check_unchanged, find_file
from app.services.access.preconditions import check_etag
from app.services.modules.uploads import Upload, uploading
from app.store.datasets import (
    check_unused,
    delete_dataset,
    find_datasets,
    get_dataset,
    insert_dataset,
    list_datasets,
)
from app.store.filters import DatasetFilter
from app.store.pages import Page, check_limit
from app.store.store import Store

__all__ = ["DatasetFilter", "DatasetService"]

_MOST_PREVIEW_ROWS = 100
_BLOCK = 1 << 20
_REMEDY = "upload it again"


class DatasetService:
    """Stores datasets and reads them. All methods but the coroutines block."""

    def __init__(
        self,
        store: Store,
        data_dir: Path,
        max_bytes: int,
        clock: Callable[[], float] = time.time,
        folders: Sequence[Path] = (),
    ) -> None:
        """Prepare.

        Args:
            max_bytes: limit on the size of a file, and on the uncompressed size of its arrays.
            folders: those whose files an operator may add without copying them.
        """
        self._folders = folders
        self._store = store
        self._directory = DatasetDirectory(data_dir)
        self._max_bytes = max_bytes
        self._clock = clock
        self._packing = asyncio.Lock()  # one at a time, because each keeps a CPU busy

    async def put(
        self,
        name: str,
        kind: DatasetKind,
        body: AsyncIterable[bytes],
        announced_bytes: int | None = None,
    ) -> DatasetRecord:
        """Create a dataset from a stream, replacing one of the same name.

        Args:
            kind: the format of the body.
            announced_bytes: ``Content-Length``, to refuse a body that is too large before reading.

        Raises:
            Invalid: a bad name.
            TooLarge: the file or its arrays exceed the limit.
            Damaged: the file is not of its kind.
            InUse: an unfinished job reads the dataset that would be replaced.
        """
        async with uploading(partial(self.begin, name)) as upload:
            upload.expect(announced_bytes)
            await upload.receive(body)
            return await asyncio.to_thread(self.commit, upload, name, kind)

    async def put_images(
        self,
        name: str,
        body: AsyncIterable[bytes],
        pack: Callable[[Path, Callable[[bytes], None]], None],
        announced_bytes: int | None = None,
    ) -> DatasetRecord:
        """Create a dataset from a stream with a file of images, decoded once on arrival.

        Args:
            pack: converts a file of images to an npz file, which it writes block by block.
            announced_bytes: see ``put``.

        Raises:
            Invalid, TooLarge, Damaged, InUse: see ``put``; or raised by ``pack``.
        """
        begin = partial(self.begin, name)
        async with uploading(begin) as images, uploading(begin) as packed:
            images.expect(announced_bytes)
            await images.receive(body)
            await asyncio.to_thread(images.finish)
            async with self._packing:
                await asyncio.to_thread(pack, images.path, packed.write)
            return await asyncio.to_thread(self.commit, packed, name, DatasetKind.NPZ)

    @tell_full_disk()
    def begin(self, name: str) -> Upload:
        """Open an upload; write to it and ``commit`` it inside its ``with`` block."""
        target = self._directory.root / check_name(name)
        return Upload(target, limit=self._max_bytes, what=f"dataset {name!r}", setting=SETTING)

    @tell_full_disk()
    def commit(self, upload: Upload, name: str, kind: DatasetKind) -> DatasetRecord:
        """Validate an upload and make it the dataset; raises what ``put`` raises."""
        record = self._describe(check_name(name), upload.path, kind, upload.finish())
        return self._place(record, upload.path)

    @tell_full_disk()
    def add(self, name: str, path: str, kind: DatasetKind) -> DatasetRecord:
        """Make an operator's file a dataset without copying it, replacing one of the same name.

        Raises:
            Invalid: a bad name, or a path that is not a file in an allowed folder.
            TooLarge: the file or its arrays exceed the limit.
            Damaged: the file is not of its kind.
            InUse: an unfinished job reads the dataset that would be replaced.
        """
        check_name(name)
        found = find_file(path, self._folders)
        before = found.stat()
        if before.st_size > self._max_bytes:
            what = f"dataset {name!r}, in bytes"
            raise TooLarge(what, got=before.st_size, limit=self._max_bytes, setting=SETTING)
        record = self._describe(name, found, kind, digest_file(found))
        if (found.stat().st_mtime_ns, record.size) != (before.st_mtime_ns, before.st_size):
            raise Invalid("path", path, "a file that nobody writes to")
        record = replace(record, path=str(found), modified_ns=before.st_mtime_ns)
        return self._place(record, None)

    def _describe(
        self, name: str, path: Path, kind: DatasetKind, digest: FileDigest
    ) -> DatasetRecord:
        limit, now = self._max_bytes, self._clock()
        return describe_file(name, path, kind, digest, limit=limit, created_at=now)

    def _place(self, record: DatasetRecord, upload: Path | None) -> DatasetRecord:
        """Put a dataset's file and record in place; an identical dataset keeps its record.

        Its file is replaced all the same, because the existing one may be damaged.
        """
        name = record.name
        with self._directory.locked():
            present = self._find(name)
            check_etag(f"dataset {name!r}", None if present is None else present.etag)
            if present is not None:
                if _is_same(present, record):
                    if upload is not None:
                        self._directory.put_in_place(record, upload)
                    return present
                # Before any file is touched; ``delete_dataset`` checks again, in its transaction.
                with self._store.read() as connection:
                    check_unused(connection, name)
            with (
                self._directory.placed(record, upload, present),
                self._store.write() as connection,
            ):
                if present is not None:
                    delete_dataset(connection, name)
                return insert_dataset(connection, record)

    def _find(self, name: str) -> DatasetRecord | None:
        try:
            return self.get(name)
        except NotFound:
            return None

    def output_path(self, job_id: int, attempt: int) -> Path:
        """Return the path for the output of a job's attempt, which ``adopt`` makes a dataset."""
        self._directory.root.mkdir(parents=True, exist_ok=True)
        return self._directory.root / f".output-{job_id}-{attempt}"

    def discard_outputs(self, job_id: int) -> None:
        """Remove outputs of a job's attempts that did not become a dataset."""
        for path in self._directory.root.glob(f".output-{job_id}-*"):
            path.unlink(missing_ok=True)

    @tell_full_disk()
    def adopt(self, path: Path, name: str, kind: DatasetKind) -> DatasetRecord:
        """Make a job's output file a dataset; raises what ``put`` raises."""
        with self.begin(name) as upload, path.open("rb") as file:
            while block := file.read(_BLOCK):
                upload.write(block)
            record = self.commit(upload, name, kind)
        path.unlink()  # last: an attempt that is interrupted before this can be repeated
        return record

    def get(self, name: str) -> DatasetRecord:
        """Return a dataset; raise NotFound."""
        with self._store.read() as connection:
            return get_dataset(connection, check_name(name))

    def list_datasets(
        self, cursor: str | None = None, limit: int = 50, wanted: DatasetFilter | None = None
    ) -> Page[DatasetRecord]:
        """Return a page of datasets, by name; raise Invalid for a bad cursor or limit."""
        if cursor is not None:
            check_name(cursor, "cursor")
        with self._store.read() as connection:
            return list_datasets(connection, wanted or DatasetFilter(), cursor, check_limit(limit))

    def find(self, names: Collection[str]) -> dict[str, DatasetRecord]:
        """Return those of these datasets that exist, by name."""
        if not names:
            return {}
        with self._store.read() as connection:
            return {record.name: record for record in find_datasets(connection, names)}

    def path(self, record: DatasetRecord) -> Path:
        """Return the path of a dataset's file, for reading.

        Raises:
            Damaged: the file is missing, or its size is wrong.
            Conflict: it is an operator's file, and was changed since it was added.
        """
        if record.path is not None:
            return check_unchanged(record, self._folders)
        path = self._directory.file(record)
        where = f"dataset {record.name}"
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            raise Damaged(where, "no file", f"{record.size:,} bytes", _REMEDY) from None
        if size != record.size:
            raise Damaged(where, f"{size:,} bytes", f"{record.size:,} bytes", _REMEDY)
        return path

    def open_file(self, name: str) -> tuple[DatasetRecord, BinaryIO]:
        """Open a dataset's file, which stays readable if it is replaced; raise NotFound."""
        record = self.get(name)
        path = self._directory.file(record) if record.path is None else self.path(record)
        try:
            return record, path.open("rb")
        except FileNotFoundError:  # deleted or replaced since the lookup
            raise NotFound("file of dataset", name, "ask again") from None

    def preview(self, name: str, rows: int = 10) -> dict[str, Any]:
        """Return the first rows; see ``dataset_formats.preview_file``.

        Raises:
            NotFound: there is no such dataset.
            Invalid: too few or too many rows.
        """
        if not 1 <= rows <= _MOST_PREVIEW_ROWS:
            raise Invalid("rows", rows, f"1 to {_MOST_PREVIEW_ROWS}")
        record = self.get(name)
        return preview_file(self.path(record), record.kind, rows)

    def first_rows(self, record: DatasetRecord, rows: int) -> dict[str, npt.NDArray[Any]]:
        """Return the first rows of each array; see ``dataset_formats.first_rows``."""
        return first_rows(self.path(record), record.kind, rows)

    @tell_full_disk()
    def delete(self, name: str) -> None:
        """Delete a dataset.

        Raises:
            NotFound: there is no such dataset.
            InUse: an unfinished job reads it.
        """
        with self._directory.locked():
            record = self.get(name)
            check_etag(f"dataset {name!r}", record.etag)
            with self._store.read() as connection:
                check_unused(connection, name)
            with self._directory.deleted(record), self._store.write() as connection:
                delete_dataset(connection, name)  # raises InUse for a job submitted meanwhile


def _is_same(one: DatasetRecord, other: DatasetRecord) -> bool:
    """Return whether two records are of the same file, and describe it alike: an earlier release
    may have read its format differently."""
    return replace(one, id=0, created_at=0) == replace(other, id=0, created_at=0)
