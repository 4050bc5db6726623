"""The files of versions that are in use for serving.

    <data>/modules/<module>/versions/<epoch>/       a checkpoint's files, linked

A version keeps its parameters as long as it is promoted, was promoted just before, is a canary or
has a label, even if a fit overwrites its checkpoint.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from app.domain.checkpoint import CheckpointManifest, CheckpointTag
from app.domain.module import ModuleRecord
from app.errors.tree import Damaged, NotFound, ServiceError
from app.errors.versions import VersionDamaged
from app.files.checkpoint_files import (
    copy_checkpoint,
    list_tags,
    read_manifest,
    remove_checkpoint,
    verify_checkpoint,
)
from app.files.durable_files import make_directory, tell_full_disk
from app.services.modules.checkpoints import CheckpointService

__all__ = ["VersionFiles", "VersionPlace"]


class VersionPlace(NamedTuple):
    """Where a version's files are.

    Attributes:
        key: identifies the files' contents.
        directory: of the files.
    """

    key: str
    directory: Path


class VersionFiles:
    """Finds, links and removes the files of versions. Its methods block."""

    def __init__(self, checkpoints: CheckpointService) -> None:
        self._checkpoints = checkpoints

    def find(self, record: ModuleRecord, version: int) -> VersionPlace:
        """Return where a version's files are.

        Raises:
            NotFound: there is no such version.
            VersionDamaged: its files cannot be read.
        """
        linked, own = self._linked(record, version), self._own(record, version)
        try:
            if version in record.versions.kept():
                # The record may be outdated, and the links removed since.
                with suppress(NotFound):
                    return _place(linked)
            return _place(own)
        except (NotFound, Damaged) as error:
            raise self.fault(record, version, error) from error

    def fault(self, record: ModuleRecord, version: int, error: ServiceError) -> ServiceError:
        """Return the error to raise if a version's files cannot be read."""
        if not isinstance(error, NotFound):
            return VersionDamaged(record.name, version, error.message)
        parts = record.versions.parts(version)
        if parts:
            reason = f"it is in use ({', '.join(parts)}), and its files are missing"
            return VersionDamaged(record.name, version, reason)
        path = f"GET /v1/modules/{record.name}/versions"
        return NotFound("version", version, f"{path} lists those that do")

    @tell_full_disk()
    def keep(self, record: ModuleRecord, version: int) -> None:
        """Link a version's files, after verifying them completely.

        Raises:
            NotFound: there is no such version.
            VersionDamaged: its files are damaged.
        """
        source, root = (
            self._directory(record, version),
            self._checkpoints.versions_root(record.name),
        )
        try:
            verify_checkpoint(source)
        except (NotFound, Damaged) as error:
            raise self.fault(record, version, error) from error
        if source.parent != root:
            make_directory(root)
            copy_checkpoint(source, root)

    def sweep(self, record: ModuleRecord) -> None:
        """Remove the links of versions that are no longer kept."""
        root = self._checkpoints.versions_root(record.name)
        for tag in list_tags(root):
            if tag.batch or tag.epoch not in record.versions.kept():
                remove_checkpoint(root, tag)

    def kept(self, record: ModuleRecord) -> dict[int, CheckpointManifest | None]:
        """Return the manifests of the kept versions; None for those that cannot be read."""
        return {version: self._manifest(record, version) for version in record.versions.kept()}

    def _manifest(self, record: ModuleRecord, version: int) -> CheckpointManifest | None:
        try:
            return read_manifest(self._directory(record, version))
        except (NotFound, Damaged):
            return None

    def _directory(self, record: ModuleRecord, version: int) -> Path:
        """Return the linked directory of a version that is kept, else the checkpoint's own."""
        linked = self._linked(record, version)
        if version in record.versions.kept() and linked.is_dir():
            return linked
        return self._own(record, version)

    def _linked(self, record: ModuleRecord, version: int) -> Path:
        return self._checkpoints.versions_root(record.name) / str(CheckpointTag(version))

    def _own(self, record: ModuleRecord, version: int) -> Path:
        return self._checkpoints.directory(record.name, CheckpointTag(version))


def _place(directory: Path) -> VersionPlace:
    return VersionPlace(read_manifest(directory).etag.strip('"'), directory)
