"""Recovery at the start: files and database are made to agree, and nothing is thrown away.

Removed is only what bears a hidden name of ours and whose writer is dead. What is damaged or not
known is left where it lies, and told of.
"""

from __future__ import annotations

from pathlib import Path

from app.domain.job import JobStatus
from app.errors import NotFound
from app.files.dataset_directory import DatasetDirectory
from app.services.checkpoint_recovery import CheckpointRecovery
from app.services.checkpoints import CheckpointService
from app.services.dataset_recovery import DatasetRecovery
from app.services.module_recovery import ModuleRecovery
from app.services.modules import ModuleService
from app.services.presence import Presence
from app.services.recovery_report import RecoveryReport
from app.store.data_directory import count_contents
from app.store.jobs import get_job
from app.store.store import Store

__all__ = ["Recovery"]


class Recovery:
    """All of it, for one server. Its methods block."""

    def __init__(
        self,
        store: Store,
        modules: ModuleService,
        checkpoints: CheckpointService,
        data_dir: Path,
        presence: Presence,
        *,
        executor: str,
        max_dataset_bytes: int,
    ) -> None:
        """Prepare.

        Args:
            executor: where modules go of which only a checkpoint is left.
            max_dataset_bytes: most bytes that a dataset without a record may unpack to.
        """
        self._store = store
        self._presence = presence
        self._modules = ModuleRecovery(store, modules.directories, executor)
        self._checkpoints = CheckpointRecovery(store, modules, checkpoints, data_dir)
        self._datasets = DatasetRecovery(store, DatasetDirectory(data_dir), max_dataset_bytes)

    def run(self, *, rebuild: bool) -> RecoveryReport:
        """Make files and database agree.

        Args:
            rebuild: also make modules and datasets of files that no record speaks of.

        Raises:
            StartError: the database is damaged; nothing was changed.
        """
        self._store.check()
        findings = [
            *self._modules.run(rebuild=rebuild),
            *self._checkpoints.run(),
            *self._datasets.run(self._is_running, rebuild=rebuild),
        ]
        return RecoveryReport(tuple(findings), self._counts())

    def look(self) -> RecoveryReport:
        """Report what does not agree, and change nothing; raise StartError as ``run`` does."""
        self._store.check()
        findings = [*self._modules.look(), *self._checkpoints.look(), *self._datasets.look()]
        return RecoveryReport(tuple(findings), self._counts())

    def _counts(self) -> dict[str, int]:
        with self._store.read() as connection:
            return count_contents(connection)

    def _is_running(self, job_id: int, attempt: int) -> bool:
        try:
            with self._store.read() as connection:
                job = get_job(connection, job_id)
        except NotFound:
            return False
        is_claimed = job.status is JobStatus.RUNNING and job.attempt == attempt
        return is_claimed and not self._presence.is_dead(str(job.server))
