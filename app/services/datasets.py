"""Datasets: uploaded as a stream, checked, kept under their digest, previewed and deleted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from app.domain.checkpoint import FileDigest
from app.domain.dataset import DatasetKind, DatasetRecord
from app.domain.names import check_name
from app.errors import Damaged, Invalid, NotFound, TooLarge
from app.files.dataset_directory import DatasetDirectory
from app.files.dataset_formats import describe_file, preview_file
from app.files.dataset_limits import SETTING
from app.files.durable_files import digest_file, tell_full_disk
from app.files.operator_files import check_unchanged, find_file
from app.services.jobs import Clock
from app.services.preconditions import check_etag
from app.services.uploads import Upload, uploading
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
    """All that can be done with datasets. Its methods block, but for ``put``."""

    def __init__(
        self,
        store: Store,
        data_dir: Path,
        max_bytes: int,
        clock: Clock = time.time,
        folders: Sequence[Path] = (),
    ) -> None:
        """Prepare.

        Args:
            max_bytes: most bytes of a file, and most bytes that its arrays may unpack to.
            folders: where an operator's files may lie that are read without a copy.
        """
        self._folders = folders
        self._store = store
        self._directory = DatasetDirectory(data_dir)
        self._max_bytes = max_bytes
        self._clock = clock
        self._packing = asyncio.Lock()  # one at a time, for it takes a processor

    async def put(
        self,
        name: str,
        kind: DatasetKind,
        body: AsyncIterable[bytes],
        announced_bytes: int | None = None,
    ) -> DatasetRecord:
        """Take a dataset from a stream; one of the same name is replaced.

        Args:
            kind: the format that the body is in.
            announced_bytes: ``Content-Length``, to refuse what is too large before reading it.

        Raises:
            Invalid: a bad name.
            TooLarge: the file or its arrays.
            Damaged: the file is not of its kind.
            InUse: an unfinished job reads the dataset that was to be replaced.
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
        """Take many images in one file from a stream, and make them arrays once for all.

        Args:
            pack: writes the npz file of a file of images, in blocks.
            announced_bytes: as of ``put``.

        Raises:
            Invalid, TooLarge, Damaged, InUse: as ``put``, and as ``pack``.
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
        """Open an upload; write to it and ``commit`` it within a ``with``."""
        target = self._directory.root / check_name(name)
        return Upload(target, limit=self._max_bytes, what=f"dataset {name!r}", setting=SETTING)

    @tell_full_disk()
    def commit(self, upload: Upload, name: str, kind: DatasetKind) -> DatasetRecord:
        """Check what was uploaded and make it the dataset; raises as ``put`` does."""
        record = self._describe(check_name(name), upload.path, kind, upload.finish())
        return self._place(record, upload.path)

    @tell_full_disk()
    def add(self, name: str, path: str, kind: DatasetKind) -> DatasetRecord:
        """Make an operator's file a dataset, without a copy; one of the same name is replaced.

        Raises:
            Invalid: a bad name, or a path that leads to no file in a folder that is allowed.
            TooLarge: the file or its arrays.
            Damaged: the file is not of its kind.
            InUse: an unfinished job reads the dataset that was to be replaced.
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
        """Put a dataset's file and record in place; the same again is the existing one.

        Its file is put in place anew all the same, for the existing one may be damaged.
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
        """Return where a job is to write a dataset, for ``adopt``."""
        self._directory.root.mkdir(parents=True, exist_ok=True)
        return self._directory.root / f".output-{job_id}-{attempt}"

    def discard_outputs(self, job_id: int) -> None:
        """Remove what attempts of a job have written that became no dataset."""
        for path in self._directory.root.glob(f".output-{job_id}-*"):
            path.unlink(missing_ok=True)

    @tell_full_disk()
    def adopt(self, path: Path, name: str, kind: DatasetKind) -> DatasetRecord:
        """Make a file of our own a dataset; raises as ``put`` does."""
        with self.begin(name) as upload, path.open("rb") as file:
            while block := file.read(_BLOCK):
                upload.write(block)
            record = self.commit(upload, name, kind)
        path.unlink()
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
        """Return by name those of these datasets that there are."""
        if not names:
            return {}
        with self._store.read() as connection:
            return {record.name: record for record in find_datasets(connection, names)}

    def path(self, record: DatasetRecord) -> Path:
        """Return where a dataset's file lies, to be read.

        Raises:
            Damaged: the file is gone, or not as long as it was.
            Conflict: it is an operator's, and not what was added.
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
        """Open a dataset's file, which stays readable when it is replaced; raise NotFound."""
        record = self.get(name)
        path = self._directory.file(record) if record.path is None else self.path(record)
        try:
            return record, path.open("rb")
        except FileNotFoundError:  # deleted or replaced since
            raise NotFound("file of dataset", name, "ask again") from None

    def preview(self, name: str, rows: int = 10) -> dict[str, Any]:
        """Return the first rows, as ``dataset_formats.preview_file`` has them.

        Raises:
            NotFound: there is no such dataset.
            Invalid: more rows than are shown.
        """
        if not 1 <= rows <= _MOST_PREVIEW_ROWS:
            raise Invalid("rows", rows, f"1 to {_MOST_PREVIEW_ROWS}")
        record = self.get(name)
        return preview_file(self.path(record), record.kind, rows)

    @tell_full_disk()
    def delete(self, name: str) -> None:
        """Remove a dataset.

        Raises:
            NotFound: there is none.
            InUse: an unfinished job reads it.
        """
        with self._directory.locked():
            record = self.get(name)
            check_etag(f"dataset {name!r}", record.etag)
            with self._store.read() as connection:
                check_unused(connection, name)
            with self._directory.deleted(record), self._store.write() as connection:
                delete_dataset(connection, name)  # nothing that reads it was submitted meanwhile


def _is_same(one: DatasetRecord, other: DatasetRecord) -> bool:
    return (one.sha256, one.kind, one.path, one.modified_ns) == (
        *(other.sha256, other.kind, other.path, other.modified_ns),
    )
