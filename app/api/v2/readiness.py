"""Which models can answer, and why others cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from app.domain.module import ModuleRecord, require
from app.domain.restoration import RestoreStatus
from app.errors.tree import ServiceError
from app.services.services import Services

__all__ = ["ModelState", "model_states"]


class ModelState(NamedTuple):
    """Whether a model can answer, in terms of the repository index, and why not."""

    state: str
    reason: str = ""

    @property
    def is_ready(self) -> bool:
        """True if the model answers; it may have to be loaded to its device first."""
        return self.state == "READY"


async def model_states(services: Services, records: Sequence[ModuleRecord]) -> list[ModelState]:
    """Return the states of models."""
    statuses = await asyncio.to_thread(services.restores.statuses, records)
    served = frozenset(services.executors.names) - frozenset(services.executors.dead())
    pairs = zip(records, statuses, strict=True)
    return [_state(record, status, record.executor in served) for record, status in pairs]


def _state(record: ModuleRecord, status: RestoreStatus, is_executor_up: bool) -> ModelState:
    if not record.serving.is_loaded:
        return ModelState("UNAVAILABLE", "unloaded")
    try:
        require(record, "predict")
    except ServiceError as error:
        return ModelState("UNAVAILABLE", error.message)
    if status.failure is not None:
        return ModelState("UNAVAILABLE", status.failure)
    if not is_executor_up:
        return ModelState("UNAVAILABLE", f"executor {record.executor} is down or starting")
    return ModelState("LOADING" if status.is_under_way else "READY")
