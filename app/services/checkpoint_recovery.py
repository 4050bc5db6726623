"""Checkpoints after a start: the index is made what lies on the disk.

A fit's checkpoint that the index lacks was written just before a death, and nobody was told of it:
it is the furthest that its module was ever trained, and becomes what the module is restored from.
"""

from __future__ import annotations

from pathlib import Path

from app.domain.checkpoint import CheckpointManifest, CheckpointTag
from app.errors import Damaged, NotFound
from app.files.checkpoint_files import (
    list_tags,
    promote_checkpoints,
    read_manifest,
    recover,
)
from app.files.durable_files import has_hidden, remove_unlocked
from app.services.checkpoints import CheckpointService
from app.services.modules import ModuleService
from app.services.recovery_report import Finding, Outcome
from app.services.resume_points import ResumePoints
from app.store.checkpoints import all_checkpoints, forget_checkpoint, put_checkpoint
from app.store.jobs import get_job, reserve_job_ids
from app.store.modules import module_names
from app.store.store import Store

__all__ = ["CheckpointRecovery"]

Manifests = dict[CheckpointTag, CheckpointManifest]


class CheckpointRecovery:
    """Makes the index of checkpoints and the disk agree."""

    def __init__(
        self, store: Store, modules: ModuleService, checkpoints: CheckpointService, data_dir: Path
    ) -> None:
        self._store = store
        self._modules = modules
        self._checkpoints = checkpoints
        self._resume_points = ResumePoints(modules, checkpoints)
        self._uploads = data_dir / "uploads"

    def run(self) -> list[Finding]:
        """Compare the checkpoints of all modules that the database knows."""
        for path in self._uploads.glob(".upload-*"):
            remove_unlocked(path)
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
        with self._store.write() as connection:
            reserve_job_ids(connection, newest_job)
        return findings

    def look(self) -> list[Finding]:
        """Return which checkpoints cannot be read, and change nothing."""
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
            except (Damaged, NotFound) as error:
                findings.append(_finding(f"{module}/{tag}", Outcome.DAMAGED, str(error)))
        return present, findings

    def _enter(self, module: str, index: Manifests, present: Manifests) -> list[Finding]:
        gone = index.keys() - present.keys()
        changed = [one for tag, one in present.items() if index.get(tag) != one]
        if gone or changed:
            with self._store.write() as connection:
                for tag in gone:
                    forget_checkpoint(connection, module, tag)
                for manifest in changed:
                    put_checkpoint(connection, manifest)
        untold = [one for one in changed if one.job_id is not None]
        return self._adopt(module, untold, present, is_import=not index)

    def _adopt(
        self,
        module: str,
        untold: list[CheckpointManifest],
        present: Manifests,
        *,
        is_import: bool,
    ) -> list[Finding]:
        """Restore a module from now on from the newest checkpoint that nobody was told of.

        Args:
            is_import: the index knew none; what is older than the record was told of.
        """
        if not untold:
            return []
        newest = max(untold, key=lambda one: (one.created_at, one.tag))
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
        """Unpin checkpoints from which finished jobs would have resumed; return the ids of all jobs
        named.

        What belongs to a job that the database does not know becomes a checkpoint of the module.
        """
        found = []
        for pinned in self._resume_points.roots(module):
            job_id = int(pinned.name)
            found.append(job_id)
            try:
                with self._store.read() as connection:
                    job = get_job(connection, job_id)
            except NotFound:
                for manifest in promote_checkpoints(pinned, self._checkpoints.root(module)):
                    with self._store.write() as connection:
                        put_checkpoint(connection, manifest)
                continue
            self._resume_points.let_go(job)
        return found


def _finding(name: str, outcome: Outcome, detail: str = "") -> Finding:
    return Finding(kind="checkpoint", name=name, outcome=outcome, detail=detail)
