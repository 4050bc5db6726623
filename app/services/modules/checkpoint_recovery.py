"""Brings the index of checkpoints up to date with the files on disk when a server starts.

A fit's checkpoint that the index lacks was written just before a crash and never recorded. It has
the module's most recent training, so the module is restored from it from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from app.domain.checkpoint import CheckpointManifest, CheckpointTag
from app.errors.database import RowDamaged
from app.errors.tree import Damaged, NotFound
from app.files.checkpoint_changes import promote_checkpoints
from app.files.checkpoint_files import (
    list_tags,
    read_manifest,
    recover,
)
from app.files.durable_files import has_hidden, remove_unlocked
from app.services.jobs.resume_points import ResumePoints
from app.services.modules.checkpoints import CheckpointService
from app.services.modules.modules import ModuleService
from app.services.operations.recovery_report import Finding, Outcome
from app.store.checkpoints import all_checkpoints, forget_checkpoint, put_checkpoint
from app.store.jobs import get_job, reserve_job_ids
from app.store.modules import module_names
from app.store.store import Store

__all__ = ["CheckpointRecovery"]

Manifests: TypeAlias = dict[CheckpointTag, CheckpointManifest]
Index: TypeAlias = Mapping[CheckpointTag, CheckpointManifest | RowDamaged]


class CheckpointRecovery:
    """Updates the index of checkpoints from the disk."""

    def __init__(
        self, store: Store, modules: ModuleService, checkpoints: CheckpointService, data_dir: Path
    ) -> None:
        self._store = store
        self._modules = modules
        self._checkpoints = checkpoints
        self._resume_points = ResumePoints(modules, checkpoints)
        self._uploads = data_dir / "uploads"

    def run(self) -> list[Finding]:
        """Update the index for all modules that the database knows, and unpin obsolete files."""
        for path in self._uploads.glob(".upload-*"):
            remove_unlocked(path)  # another server that is receiving one holds its lock
        with self._store.read() as connection:
            index = all_checkpoints(connection)
            names = module_names(connection)
        findings: list[Finding] = []
        newest_job = 0
        for name in names:
            present, damaged = self._on_disk(name)
            findings += damaged
            findings += self._enter(name, index.get(name, {}), present)
            newest_job = max([newest_job, *(one.job_id or 0 for one in present.values())])
            newest_job = max([newest_job, *self._recover_pins(name)])
        # A new job with the id of one that an older database knew would take that one's checkpoints
        # for its own.
        with self._store.write() as connection:
            reserve_job_ids(connection, newest_job)
        return findings

    def look(self) -> list[Finding]:
        """Return which checkpoints cannot be read, without changing anything."""
        with self._store.read() as connection:
            names = module_names(connection)
        return [finding for name in names for finding in self._read(name)[1]]

    def _on_disk(self, module: str) -> tuple[Manifests, list[Finding]]:
        for root in (self._checkpoints.root(module), self._checkpoints.versions_root(module)):
            if has_hidden(root):
                recover(root)
        return self._read(module)

    def _read(self, module: str) -> tuple[Manifests, list[Finding]]:
        root = self._checkpoints.root(module)
        present: Manifests = {}
        findings = []
        for tag in list_tags(root):
            try:
                present[tag] = read_manifest(root / str(tag))
            except NotFound:
                continue  # a running fit has removed it since it was listed
            except Damaged as error:
                findings.append(_finding(f"{module}/{tag}", Outcome.DAMAGED, str(error)))
        return present, findings

    def _enter(self, module: str, index: Index, present: Manifests) -> list[Finding]:
        gone = index.keys() - present.keys()
        changed = [one for tag, one in present.items() if index.get(tag) != one]
        if gone or changed:
            with self._store.write() as connection:
                for tag in gone:
                    forget_checkpoint(connection, module, tag)
                for manifest in changed:
                    put_checkpoint(connection, manifest)
        # Only those of a fit: one that a call saved is recorded in the module before the index, and
        # one that was uploaded does not change the module.
        damaged = {tag: one for tag, one in index.items() if isinstance(one, RowDamaged)}
        unrecorded = [one for one in changed if one.job_id is not None and one.tag not in damaged]
        return [
            *(_mended(f"{module}/{tag}", one, tag in present) for tag, one in damaged.items()),
            *self._adopt(module, unrecorded, present, is_import=not index),
        ]

    def _adopt(
        self,
        module: str,
        unrecorded: list[CheckpointManifest],
        present: Manifests,
        *,
        is_import: bool,
    ) -> list[Finding]:
        """Restore a module from the newest of its unrecorded checkpoints, if it is newer than the
        present one.

        Args:
            is_import: the index was empty, so that only a checkpoint newer than the module's record
                can have been missed.
        """
        if not unrecorded:
            return []
        newest = max(unrecorded, key=lambda one: (one.created_at, one.tag))
        record = self._modules.get(module)
        if record.is_restored_from(newest.tag):
            return []
        known = None if record.checkpoint is None else present.get(record.checkpoint)
        since = record.updated_at if is_import else 0.0
        if known is not None and known is not newest:
            since = max(since, known.created_at)
        if newest.created_at <= since:
            return []
        self._checkpoints.saved(module, newest.tag)
        return [_finding(f"{module}/{newest.tag}", Outcome.ADOPTED)]

    def _recover_pins(self, module: str) -> list[int]:
        """Unpin the checkpoints of finished jobs, and return the ids of all jobs that had any.

        Those of a job that the database does not know become ordinary checkpoints of the module.
        """
        found = []
        for pinned in self._resume_points.roots(module):
            job_id = int(pinned.name)
            found.append(job_id)
            try:
                with self._store.read() as connection:
                    job = get_job(connection, job_id)
            except RowDamaged:
                continue
            except NotFound:
                for manifest in promote_checkpoints(pinned, self._checkpoints.root(module)):
                    with self._store.write() as connection:
                        put_checkpoint(connection, manifest)
                continue
            self._resume_points.let_go(job)
        return found


def _mended(name: str, damage: RowDamaged, is_present: bool) -> Finding:
    end = "written anew from its manifest" if is_present else "removed, since it has no files"
    return _finding(name, Outcome.DAMAGED, f"{damage.reason}, and {end}")


def _finding(name: str, outcome: Outcome, detail: str = "") -> Finding:
    return Finding(kind="checkpoint", name=name, outcome=outcome, detail=detail)
