"""Checkpoints of modules. The files are authoritative; the store's rows are an index of them.

<data>/modules/<module>/checkpoints/<tag>/
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections.abc import AsyncIterable, Callable, Collection, Container, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from app.domain.checkpoint import CheckpointManifest, CheckpointTag, FileDigest, prefix_of
from app.domain.module import ModuleRecord
from app.domain.names import check_name_of_file
from app.domain.retention import tags_to_keep
from app.errors.tree import Conflict, Damaged, InUse, NotFound, TooLarge
from app.files.checkpoint_changes import remove_unless_replaced
from app.files.checkpoint_files import (
    link_files,
    open_checkpoint_file,
    read_manifest,
    readable_manifests,
    remove_checkpoint,
    verify_checkpoint,
    versions_root,
    write_checkpoint,
)
from app.files.durable_files import tell_full_disk
from app.files.name_locks import NameLocks
from app.services.access.preconditions import check_etag, is_expected
from app.services.modules.incoming_checkpoint import IncomingCheckpoint, check_file_name
from app.services.modules.modules import ModuleService
from app.services.modules.uploads import Upload, uploading
from app.services.modules.version_guard import require_additions, require_free, require_replaceable
from app.store.checkpoints import (
    forget_checkpoint,
    indexed_manifests,
    indexed_tags,
    list_checkpoints,
    newest_version,
    put_checkpoint,
)
from app.store.filters import CheckpointFilter
from app.store.pages import Page, check_limit
from app.store.store import Store

__all__ = ["CheckpointFilter", "CheckpointService"]

_log = logging.getLogger(__name__)

_SETTING = "MODSERVE_MAX_CHECKPOINT_BYTES"


class CheckpointService:
    """Stores, lists, verifies and deletes checkpoints. All methods but ``upload`` block."""

    def __init__(
        self,
        store: Store,
        modules: ModuleService,
        data_dir: Path,
        *,
        max_bytes: int,
        max_symbol_bytes: int = 1 << 26,
        keep: int | None = None,
    ) -> None:
        """Prepare.

        Args:
            max_bytes: limit on the size of an uploaded checkpoint, all files together.
            max_symbol_bytes: limit on the size of a symbol in an upload that creates a module.
            keep: checkpoints to keep per module unless a job says otherwise; None keeps all.
        """
        self._store = store
        self._modules = modules
        self._data_dir = data_dir
        self._max_bytes = max_bytes
        self._max_symbol_bytes = max_symbol_bytes
        self._keep = keep
        self._upload_locks = NameLocks(data_dir / "locks" / "checkpoints")
        self._editions: dict[str, int] = {}
        self._count = itertools.count(1)

    # -- places -------------------------------------------------------------------------------

    def root(self, module: str) -> Path:
        """Return the directory of a module's checkpoints, which may not exist yet."""
        return self._modules.directories.path(module) / "checkpoints"

    def directory(self, module: str, tag: CheckpointTag) -> Path:
        """Return the directory of one checkpoint, which may not exist."""
        return self.root(module) / str(tag)

    def versions_root(self, module: str) -> Path:
        """Return the directory of the files kept for versions, which may not exist."""
        return versions_root(self.root(module))

    def base(self, record: ModuleRecord) -> Path | None:
        """Return the directory of the parameters that a module with a new head was made from; None
        for any other module."""
        if record.origin is None or record.origin.head is None:
            return None
        return self._modules.directories.path(record.name) / "base" / record.origin.epoch

    @property
    def temporary_folder(self) -> Path:
        """Folder for temporary files, on the same file system as the data."""
        return self._data_dir / "uploads"

    # -- reading ------------------------------------------------------------------------------

    def edition(self, module: str) -> int:
        """Return a number that changes when a module's checkpoints do."""
        return self._editions.get(module, 0)

    def touch(self, module: str) -> None:
        """Change the ``edition`` after a change of a module's checkpoints, or of its versions'."""
        self._editions[module] = next(self._count)

    def latest_version(self, module: str) -> int | None:
        """Return the number of the version that was written last, None without any.

        For a model of the models folder, whose files are read in any order, it is the highest.

        Raises:
            NotFound: there is no such module.
        """
        is_model = self._modules.get(module).folder is not None
        with self._store.read() as connection:
            if not is_model:
                return newest_version(connection, module)
            whole = [tag.epoch for tag in indexed_tags(connection, module) if not tag.batch]
        return max(whole, default=None)

    def list_checkpoints(
        self,
        module: str,
        cursor: str | None = None,
        limit: int = 50,
        wanted: CheckpointFilter | None = None,
    ) -> Page[CheckpointManifest]:
        """Return a page of a module's checkpoints, furthest in training first.

        Raises:
            NotFound: there is no such module.
            Invalid: a bad cursor or limit.
        """
        before = None if cursor is None else CheckpointTag.parse(cursor, "cursor")
        with self._store.read() as connection:
            wanted = wanted or CheckpointFilter()
            return list_checkpoints(connection, module, wanted, before, check_limit(limit))

    def get(self, module: str, tag: CheckpointTag) -> CheckpointManifest:
        """Return a checkpoint's manifest; raise NotFound or Damaged."""
        self._modules.get(module)
        return read_manifest(self.directory(module, tag))

    def verify(self, module: str, tag: CheckpointTag) -> Path:
        """Check the digests of a checkpoint's files against its manifest; return its directory.

        To be called before the checkpoint is loaded. Raises NotFound or Damaged.
        """
        self._modules.get(module)
        directory = self.directory(module, tag)
        verify_checkpoint(directory)
        return directory

    def require_same(self, module: str, tag: CheckpointTag, etag: str) -> None:
        """Raise Conflict if a checkpoint that was loaded has been replaced or deleted since.

        To be called under the lock of the module's record, before that names the checkpoint. The
        module is then evicted from the device, and restored from its former checkpoint.
        """
        try:
            present: str | None = read_manifest(self.directory(module, tag)).etag
        except (NotFound, Damaged):
            present = None
        if present != etag:
            raise Conflict(
                f"checkpoint {tag} of module {module!r} was replaced or deleted while it was "
                "loaded; load it again, or another one"
            )

    def open_file(self, module: str, tag: CheckpointTag, name: str) -> BinaryIO:
        """Open a file of a checkpoint for a download; see ``open_checkpoint_file``."""
        self._modules.get(module)
        return open_checkpoint_file(self.directory(module, tag), name)

    # -- writing ------------------------------------------------------------------------------

    @tell_full_disk()
    def saved(self, module: str, tag: CheckpointTag) -> CheckpointManifest:
        """Record a checkpoint that an executor has written; from now on the module is restored from
        it."""
        manifest = read_manifest(self.directory(module, tag))
        # The index is updated last: if a crash leaves the checkpoint out of it, recovery finds
        # that, and makes up for the module's record as well.
        has_states = any(name.endswith(".states") for name in manifest.files)
        self._modules.saved(module, tag, saved_states=has_states)
        self._enter(manifest)
        return manifest

    async def upload(
        self,
        module: str,
        tag: CheckpointTag,
        name: str,
        body: AsyncIterable[bytes],
        announced_bytes: int | None = None,
    ) -> CheckpointManifest:
        """Add a file from a stream to a checkpoint, which is created if it does not exist.

        Raises:
            NotFound: there is no such module.
            Invalid: a bad file name.
            TooLarge: the checkpoint would exceed its limit, all files together.
        """
        async with uploading(partial(self.begin_upload, module, tag, name)) as upload:
            upload.expect(announced_bytes)
            await upload.receive(body)
            return await asyncio.to_thread(self.add_files, module, tag, {name: upload})

    @tell_full_disk()
    def begin_upload(self, module: str, tag: CheckpointTag, name: str) -> Upload:
        """Open an upload of one file; pass it to ``add_files`` inside its ``with`` block."""
        check_file_name(name)
        self._modules.get(module)
        with self._unless_deleted(module):
            return Upload(
                self.root(module) / name,
                limit=max(0, self._max_bytes - self._size_without(module, tag, {name})),
                what=f"checkpoint {tag} of module {module!r}",
                setting=_SETTING,
            )

    def begin_whole(self) -> IncomingCheckpoint:
        """Begin to receive a whole checkpoint; pass its files to ``add_files`` inside its ``with``
        block."""
        return IncomingCheckpoint(
            self.temporary_folder,
            max_bytes=self._max_bytes,
            max_symbol_bytes=self._max_symbol_bytes,
        )

    @tell_full_disk()
    def add_files(
        self,
        module: str,
        tag: CheckpointTag,
        uploads: Mapping[str, Upload],
        *,
        is_whole: bool = False,
        of: ModuleRecord | None = None,
    ) -> CheckpointManifest:
        """Add uploaded files to a checkpoint atomically, replacing files of the same names.

        The module itself keeps its parameters until the checkpoint is loaded.

        Args:
            module, tag: which checkpoint; it is created if it does not exist.
            uploads: the files by name.
            is_whole: the uploads replace all files of the checkpoint.
            of: the module that is meant, not another one that has its name meanwhile.

        Raises:
            NotFound: the module was deleted meanwhile.
            TooLarge: the checkpoint would exceed its limit, all files together.
            InUse: the module is restored from this checkpoint, whose files would change.
        """
        digests = {name: upload.finish() for name, upload in uploads.items()}
        # Serialized, so that the second of two uploads keeps what the first has added.
        with self._unless_deleted(module), self._upload_locks.locked(f"{module}/{tag}"):
            if not is_whole:
                self._check_etag(module, tag, digests)
                self._check_size(module, tag, digests)
            replacing = partial(self._replaceable, module, tag, digests, is_whole, of)
            with replacing():
                pass  # before files are read for nothing
            self._write_files(module, tag, uploads, is_whole, replacing)
            manifest = read_manifest(self.directory(module, tag))
            self._enter(manifest)
        return manifest

    def _write_files(
        self,
        module: str,
        tag: CheckpointTag,
        uploads: Mapping[str, Upload],
        is_whole: bool,
        replacing: Callable[[], AbstractContextManager[None]],
    ) -> None:
        present = {} if is_whole else self._files_present(module, tag)
        prefix = prefix_of({*uploads, *present}) or module
        root = self.root(module)
        with write_checkpoint(
            root, tag, module=module, prefix=prefix, replacing=replacing
        ) as writer:
            kept = {name: digest for name, digest in present.items() if name not in uploads}
            if kept:
                writer.expected = kept
                link_files(self.directory(module, tag), kept, writer.directory)
            # A link, because the upload removes its own name of the file at the end.
            for name, upload in uploads.items():
                os.link(upload.path, writer.directory / check_name_of_file(name))

    def _check_size(self, module: str, tag: CheckpointTag, new: Mapping[str, FileDigest]) -> None:
        size = self._size_without(module, tag, new) + sum(one.size for one in new.values())
        if size > self._max_bytes:
            what = f"checkpoint {tag} of module {module!r}, in bytes"
            raise TooLarge(what, got=size, limit=self._max_bytes, setting=_SETTING)

    def _size_without(self, module: str, tag: CheckpointTag, names: Container[str]) -> int:
        """Return the size of a checkpoint without the files of these names."""
        present = self._files_present(module, tag)
        return sum(one.size for name, one in present.items() if name not in names)

    @contextmanager
    def _replaceable(
        self,
        module: str,
        tag: CheckpointTag,
        digests: Mapping[str, FileDigest],
        is_whole: bool,
        of: ModuleRecord | None,
    ) -> Iterator[None]:
        """Let files of a checkpoint be replaced in the block; raise InUse if the module is restored
        from it, or it is a version in use, unless files are only added; or if a fit is to write
        it."""
        # Under the lock of the record, else it could come to name this checkpoint in between.
        with self._modules.directories.locked(module):
            record = self._modules.get(module) if of is None else self._same(of)
            present = self._files_present(module, tag)
            require_additions(record, tag, present, digests, is_whole=is_whole)
            with self._store.read() as connection:
                require_free(connection, record, tag)
            yield

    def require_savable(self, module: str, tag: CheckpointTag) -> None:
        """Raise InUse if a save would replace a version in use, or one that a fit is to write."""
        record = self._modules.get(module)
        if not tag.batch:
            require_replaceable(record, {tag.epoch}, "save under another epoch")
        with self._store.read() as connection:
            require_free(connection, record, tag)

    def _same(self, record: ModuleRecord) -> ModuleRecord:
        return self._modules.get_same(record.name, record.id)

    @tell_full_disk()
    def take_over(self, record: ModuleRecord) -> None:
        """Hard-link the parameters of the checkpoint that a module was made from.

        They become a checkpoint of the module, or, if it has a new head, the ``base`` whose values
        it keeps when the head is initialized.

        Raises:
            NotFound, Damaged: the checkpoint does not exist, or is damaged.
        """
        assert record.origin is not None
        tag = CheckpointTag.parse(record.origin.epoch)
        source = self.verify(record.origin.module, tag)
        manifest = read_manifest(source)
        base = self.base(record)
        root = self.root(record.name) if base is None else base.parent
        writing = write_checkpoint(root, tag, module=record.name, prefix=manifest.prefix)
        with self._unless_deleted(record.name), writing as writer:
            params = [name for name in manifest.files if name.endswith(".params")]
            link_files(source, params, writer.directory)
        if base is None:
            self._enter(read_manifest(root / str(tag)))

    @tell_full_disk()
    def delete(self, module: str, tag: CheckpointTag) -> None:
        """Delete a checkpoint, even a damaged one.

        Raises:
            NotFound: no such module or checkpoint.
            InUse: the module is restored from it, or it is a version in use.
            Conflict: a fit has put another one in its place, which is not recorded yet.
        """
        # Under the lock of the record, else it could come to name this checkpoint in between.
        with self._modules.directories.locked(module):
            self._check_etag(module, tag)
            record = self._modules.get(module)
            if record.checkpoint == tag:
                raise InUse(
                    f"checkpoint {tag} is what module {module!r} is restored from; save or load "
                    "another first (where it is damaged, one uploaded under an epoch before it is "
                    f"restored by POST /v1/modules/{module}/restore, and can then be loaded)"
                )
            parts = [] if tag.batch else record.versions.parts(tag.epoch)
            if parts:
                raise InUse(
                    f"version {tag} of module {module!r} is in use: {', '.join(parts)}; promote "
                    "another one, end its trial or take the label away first"
                )
            self._note_gone(module, {tag})
            self._remove_recorded(module, tag)

    def prune(self, module: str, keep: int | None = None) -> list[CheckpointTag]:
        """Delete all but the newest checkpoints, see ``tags_to_keep``; return the deleted tags.

        Args:
            keep: how many between epochs; None for the server's default, which may be all.
        """
        keep = keep if keep is not None else self._keep
        with self._modules.directories.locked(module):  # see ``delete``
            newest_first = sorted(self._manifests(module), key=_age, reverse=True)
            kept = tags_to_keep(self._modules.get(module), newest_first, keep)
            with self._store.read() as connection:
                recorded = indexed_manifests(connection, module)
            # A fit writes while this runs: what it has written and not reported yet is not
            # recorded, or is recorded as what it has replaced.
            surplus = [
                one for one in newest_first if one.tag not in kept and recorded.get(one.tag) == one
            ]
            self._note_gone(module, {one.tag for one in surplus})
            return [one.tag for one in surplus if self._remove_seen(one)]

    # -- helpers ------------------------------------------------------------------------------

    def _enter(self, manifest: CheckpointManifest) -> None:
        with self._store.write() as connection:
            put_checkpoint(connection, manifest)
            self._modules.tell_of_checkpoint(connection, manifest)
        self._modules.notifier.notify()
        self.touch(manifest.module)

    def _manifests(self, module: str) -> Iterator[CheckpointManifest]:
        return readable_manifests(self.root(module), _log.warning)

    def _files_present(self, module: str, tag: CheckpointTag) -> Mapping[str, FileDigest]:
        directory = self.directory(module, tag)
        return read_manifest(directory).files if directory.is_dir() else {}

    @contextmanager
    def _unless_deleted(self, module: str) -> Iterator[None]:
        """Raise NotFound instead of FileNotFoundError if the module was deleted meanwhile."""
        identity = self._modules.get(module).id
        try:
            yield
        except FileNotFoundError:
            self._modules.get_same(module, identity)
            raise

    def _check_etag(self, module: str, tag: CheckpointTag, added: Collection[str] = ()) -> None:
        if not is_expected():
            return
        try:
            manifest = self.get(module, tag)
        except (NotFound, Damaged):
            present, is_new = None, True
        else:
            present, is_new = manifest.etag, bool(added) and manifest.files.keys().isdisjoint(added)
        check_etag(f"checkpoint {tag} of module {module!r}", present, is_new=is_new)

    def _note_gone(self, module: str, gone: Collection[CheckpointTag]) -> None:
        """Before the versions with the highest numbers are deleted, see to it that these are not
        used again; the caller holds the module's lock."""
        with self._store.read() as connection:
            left = indexed_tags(connection, module) - set(gone)
        highest = max((tag.epoch for tag in left), default=-1)
        lost = max((tag.epoch for tag in gone), default=-1)
        if lost > highest:
            self._modules.note_deleted(module, lost)

    def _remove_recorded(self, module: str, tag: CheckpointTag) -> None:
        """Remove a checkpoint; raise Conflict if a fit has replaced the one that is recorded."""
        try:
            found = read_manifest(self.directory(module, tag))
        except Damaged:
            remove_checkpoint(self.root(module), tag)
            self._forget(module, tag)
            return
        with self._store.read() as connection:
            recorded = indexed_manifests(connection, module).get(tag)
        is_new = found.job_id is not None and found != recorded
        if is_new or not self._remove_seen(found):
            raise Conflict(
                f"a fit has just written checkpoint {tag} of module {module!r}; look at it again "
                "before you delete it"
            )

    def _remove_seen(self, seen: CheckpointManifest) -> bool:
        """Remove a checkpoint, unless another has taken its place; return whether it is removed."""
        # The files first: a row without files is forgotten by the recovery, while files without a
        # row would be entered again.
        is_removed = remove_unless_replaced(self.root(seen.module), seen)
        if is_removed:
            self._forget(seen.module, seen.tag)
        return is_removed

    def _forget(self, module: str, tag: CheckpointTag) -> None:
        with self._store.write() as connection:
            forget_checkpoint(connection, module, tag)
        self.touch(module)


def _age(manifest: CheckpointManifest) -> tuple[float, CheckpointTag]:
    return manifest.created_at, manifest.tag
