"""The commands that call a server: ``modserve jobs``, ``modules``, ``train`` and others."""

from __future__ import annotations

from app.cli.commands.checkpoints import checkpoints
from app.cli.commands.completion import COMPLETE_VARIABLE, completion
from app.cli.commands.datasets import datasets
from app.cli.commands.health import health
from app.cli.commands.jobs import jobs
from app.cli.commands.modules import modules
from app.cli.commands.predicting import predict
from app.cli.commands.training import train
from app.cli.commands.zoo import zoo

__all__ = [
    "COMPLETE_VARIABLE",
    "checkpoints",
    "completion",
    "datasets",
    "health",
    "jobs",
    "modules",
    "predict",
    "train",
    "zoo",
]
