"""Recovery at startup: reconciles files and database, without discarding any data.

Only temporary files are removed: those with one of our hidden names whose writer is dead. Anything
damaged or unknown stays where it is, and is reported.
"""

from __future__ import annotations

from pathlib import Path

from app.domain.job import JobStatus
from app.errors.database import RowDamaged
from app.errors.tree import NotFound
from app.files.dataset_directory import DatasetDirectory
from app.services.modules.checkpoint_recovery import CheckpointRecovery
from app.services.modules.checkpoints import CheckpointService
from app.services.modules.dataset_recovery import DatasetRecovery
from app.services.modules.module_recovery import ModuleRecovery
from app.services.modules.modules import ModuleService
from app.services.operations.liveness import Liveness
from app.services.operations.recovery_report import RecoveryReport
from app.store.data_directory import count_contents
from app.store.jobs import get_job
from app.store.store import Store

__all__ = ["Recovery"]


class Recovery:
    """Recovers modules, checkpoints and datasets. Its methods block."""

    def __init__(
        self,
        store: Store,
        modules: ModuleService,
        checkpoints: CheckpointService,
        data_dir: Path,
        liveness: Liveness,
        *,
        executor: str,
        max_dataset_bytes: int,
    ) -> None:
        """Prepare.

        Args:
            executor: for modules that are rebuilt from a checkpoint.
            max_dataset_bytes: limit on the unpacked size of a dataset without a record.
        """
        self._store = store
        self._presence = liveness
        self._modules = ModuleRecovery(store, modules.directories, executor)
        self._checkpoints = CheckpointRecovery(store, modules, checkpoints, data_dir)
        self._datasets = DatasetRecovery(store, DatasetDirectory(data_dir), max_dataset_bytes)

    def run(self, *, rebuild: bool) -> RecoveryReport:
        """Reconcile files and database.

        Args:
            rebuild: also create modules and datasets from files without a record.

        Raises:
            StartError: the database is damaged; nothing was changed.
        """
        self._store.check()
        # The modules first: only the checkpoints of modules that the database knows are entered.
        findings = [
            *self._modules.run(rebuild=rebuild),
            *self._checkpoints.run(),
            *self._datasets.run(self._is_running, rebuild=rebuild),
        ]
        return RecoveryReport(tuple(findings), self._counts())

    def look(self) -> RecoveryReport:
        """Report differences, and change nothing; raise StartError as ``run`` does."""
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
        except (NotFound, RowDamaged):
            return False
        is_claimed = job.status is JobStatus.RUNNING and job.attempt == attempt
        return is_claimed and not self._presence.is_dead(str(job.server))
