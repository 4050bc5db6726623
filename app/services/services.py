"""All services of one server, for use by routes."""

from __future__ import annotations

from dataclasses import dataclass

from app.folder_names import without_folder_names
from app.services.jobs.jobs import JobService
from app.services.modules.checkpoints import CheckpointService
from app.services.modules.datasets import DatasetService
from app.services.modules.model_making import ModelMaker
from app.services.modules.model_repository import ModelRepository
from app.services.modules.module_access import ModuleAccess
from app.services.modules.module_commands import ModuleCommands
from app.services.modules.modules import ModuleService
from app.services.modules.param_summaries import ParamSummaries
from app.services.modules.restore_log import RestoreLog
from app.services.modules.versions import Versions
from app.services.operations.disk_space import DiskSpace
from app.services.operations.executors import Executors
from app.services.operations.recovery_report import RecoveryReport
from app.services.predictions.instances import Instances
from app.services.predictions.observed_lengths import ObservedLengths
from app.services.predictions.predictions import Predictions
from app.services.predictions.statistics import Statistics

__all__ = ["Services"]


@dataclass(frozen=True)
class Services:
    """The services of one server.

    Attributes:
        recovered: report of the recovery at startup.
    """

    modules: ModuleService
    restores: RestoreLog
    access: ModuleAccess
    commands: ModuleCommands
    executors: Executors
    instances: Instances
    checkpoints: CheckpointService
    datasets: DatasetService
    jobs: JobService
    predictions: Predictions
    lengths: ObservedLengths
    maker: ModelMaker
    models: ModelRepository
    statistics: Statistics
    summaries: ParamSummaries
    versions: Versions
    space: DiskSpace
    recovered: RecoveryReport

    def warnings(self) -> list[str]:
        """Return the problems that an operator should look at; reads the store."""
        remarkable = self.restores.remarkable()
        found = [f"module {name}: {one.failure or one.warning}" for name, one in remarkable.items()]
        found += [str(problem) for problem in self.recovered.problems]
        found += self.models.warnings()
        found += self.space.warnings()
        return [without_folder_names(one) for one in found]
