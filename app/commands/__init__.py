"""The commands that ask a server: ``modserve jobs``, ``modules``, ``train`` and others."""

from __future__ import annotations

from app.commands.checkpoints import checkpoints
from app.commands.datasets import datasets
from app.commands.jobs import jobs
from app.commands.modules import modules
from app.commands.predicting import predict
from app.commands.training import train

__all__ = ["checkpoints", "datasets", "jobs", "modules", "predict", "train"]
