"""All services of one server, as routes find them."""

from __future__ import annotations

from dataclasses import dataclass

from app.services.checkpoints import CheckpointService
from app.services.datasets import DatasetService
from app.services.executors import Executors
from app.services.jobs import JobService
from app.services.module_commands import ModuleCommands
from app.services.modules import ModuleService

__all__ = ["Services"]


@dataclass(frozen=True)
class Services:
    """What the server can do."""

    modules: ModuleService
    commands: ModuleCommands
    executors: Executors
    checkpoints: CheckpointService
    datasets: DatasetService
    jobs: JobService
