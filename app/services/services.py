"""All services of one server, for use by routes."""

from __future__ import annotations

from dataclasses import dataclass

from app.folder_names import without_folder_names
from app.services.checkpoints import CheckpointService
from app.services.datasets import DatasetService
from app.services.disk_space import DiskSpace
from app.services.executors import Executors
from app.services.instances import Instances
from app.services.jobs import JobService
from app.services.model_making import ModelMaker
from app.services.model_repository import ModelRepository
from app.services.module_access import ModuleAccess
from app.services.module_commands import ModuleCommands
from app.services.modules import ModuleService
from app.services.observed_lengths import ObservedLengths
from app.services.param_summaries import ParamSummaries
from app.services.predictions import Predictions
from app.services.recovery_report import RecoveryReport
from app.services.restore_log import RestoreLog
from app.services.statistics import Statistics
from app.services.versions import Versions

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
