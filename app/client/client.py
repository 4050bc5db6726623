"""The REST surface as Python calls (httpx), one method per verb."""

from __future__ import annotations

from app.client.checkpoints import CheckpointCalls
from app.client.datasets import DatasetCalls
from app.client.jobs import JobCalls
from app.client.models import ModelCalls
from app.client.steps import StepCalls

__all__ = ["Client"]


class Client(CheckpointCalls, StepCalls, JobCalls, DatasetCalls, ModelCalls):
    """Calls a modserve server; see ``Connection`` for its arguments.

    Calls raise ``ClientError`` where the server refuses them, and httpx's errors where it is not
    reached.
    """
