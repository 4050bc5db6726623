"""The commands that call a server: ``modserve jobs``, ``modules``, ``train`` and others."""

from __future__ import annotations

from app.commands.checkpoints import checkpoints
from app.commands.completion import COMPLETE_VARIABLE, completion
from app.commands.datasets import datasets
from app.commands.health import health
from app.commands.jobs import jobs
from app.commands.modules import modules
from app.commands.predicting import predict
from app.commands.training import train
from app.commands.zoo import zoo

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
