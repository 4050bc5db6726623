"""The checkpoints from which unfinished fits resume.

    <data>/modules/<module>/resume/<job>/<tag>/     a checkpoint's files, linked

The links preserve a job's newest checkpoint when the one that clients see is overwritten by another
job of the module, pruned or deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from app.domain.checkpoint import CheckpointTag
from app.domain.job import TERMINAL, Job, JobKind, JobStatus
from app.errors.tree import Damaged, NotFound, ServiceError
from app.files.checkpoint_files import (
    admit_attempt,
    copy_checkpoint,
    list_tags,
    read_manifest,
    readable_manifests,
    recover,
    remove_checkpoint,
    shut_out_attempt,
    verify_checkpoint,
)
from app.files.durable_files import discard, make_directory, tell_full_disk
from app.services.modules.checkpoints import CheckpointService
from app.services.modules.modules import ModuleService

__all__ = ["ResumePoints"]

_log = logging.getLogger(__name__)


class ResumePoints:
    """Keeps and finds the checkpoints from which attempts of fits resume. Its methods block."""

    def __init__(self, modules: ModuleService, checkpoints: CheckpointService) -> None:
        self._modules = modules
        self._checkpoints = checkpoints

    @tell_full_disk()
    def keep(self, job: Job, tag: CheckpointTag) -> None:
        """Make a checkpoint the one from which a job resumes."""
        root = self._root(job)
        make_directory(root.parent)
        # Before the others are removed: a job that has saved always has a resume point.
        copy_checkpoint(self._checkpoints.directory(job.module, tag), root)
        for other in list_tags(root):
            if other != tag:
                remove_checkpoint(root, other)

    @tell_full_disk()
    def begin_attempt(self, job: Job, warn: Callable[[str], None] = _log.warning) -> Path | None:
        """Allow an attempt of a fit, and no earlier one, to write checkpoints; return where it
        resumes.

        That is the latest intact checkpoint the job wrote, even if its server died before the
        checkpoint was recorded; None for a new job.

        Args:
            warn: called for each damaged checkpoint, which is skipped.
        """
        admit_attempt(self._checkpoints.root(job.module), job.id, job.attempt)
        directory = self._furthest(job, warn)
        if directory is not None:
            self._adopt(job, directory)
        return directory

    def end_attempt(self, job: Job, tag: CheckpointTag) -> None:
        """Make sure that a fit's module is restored from the fit's last checkpoint."""
        self._adopt(job, self._checkpoints.directory(job.module, tag))

    def lose_attempt(self, job: Job) -> None:
        """Forbid an attempt that is assumed dead to write; what it has written remains valid."""
        if job.kind is not JobKind.FIT:
            return
        try:
            # First, so that no checkpoint of it appears after the search for the furthest one.
            shut_out_attempt(self._checkpoints.root(job.module), job.id, job.attempt)
            directory = self._furthest(job, _log.warning)
            if directory is not None:
                self._adopt(job, directory)
        except (ServiceError, OSError) as error:  # the caller must still record the loss
            _log.error("job %d: after attempt %d: %s", job.id, job.attempt, error)

    def _furthest(self, job: Job, warn: Callable[[str], None]) -> Path | None:
        found: list[tuple[CheckpointTag, Path]] = []
        for root in (self._root(job), self._checkpoints.root(job.module)):
            recover(root)
            for manifest in readable_manifests(root, warn):
                if manifest.job_id == job.id:
                    found.append((manifest.tag, root / str(manifest.tag)))
        for _, directory in sorted(found, key=lambda one: one[0])[::-1]:
            try:
                verify_checkpoint(directory)
            except Damaged as error:
                warn(f"skipped: {directory.parent.name}/{directory.name}: {error}")
            else:
                return directory
        return None

    def _adopt(self, job: Job, directory: Path) -> None:
        """Make a job's checkpoint the one that its module is restored from.

        Nothing changes if it is already, or if another job has overwritten the checkpoint.
        """
        tag = CheckpointTag.parse(directory.name)
        try:
            manifest = read_manifest(self._checkpoints.directory(job.module, tag))
        except (Damaged, NotFound):
            return
        record = self._modules.get(job.module)
        if manifest.job_id == job.id and not record.is_restored_from(tag):
            self._checkpoints.saved(job.module, tag)

    def roots(self, module: str) -> list[Path]:
        """Return the directories of a module's resume points, which are named by job id."""
        root = self._modules.directories.path(module) / "resume"
        found = root.iterdir() if root.is_dir() else ()
        return sorted(path for path in found if path.name.isdecimal() and path.is_dir())

    def discard(self, job: Job) -> None:
        """Remove the resume point of a deleted job."""
        discard(self._root(job))

    def let_go(self, job: Job) -> None:
        """Remove the resume point of a job that is over, unless it failed and so may be retried."""
        if job.status in TERMINAL and job.status is not JobStatus.FAILED:
            discard(self._root(job))

    def _root(self, job: Job) -> Path:
        return self._modules.directories.path(job.module) / "resume" / str(job.id)
