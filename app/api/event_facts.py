"""What events carry in their `data`, by their types."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.api.fact_views import JobFailure, JobProgress
from app.api.timestamps import Timestamp
from app.api.views import StatisticView
from app.domain.job import JobKind
from app.domain.module import ModuleKind

__all__ = ["EVENT_FACTS"]


class _Facts(BaseModel):
    """Events of other versions may tell more."""

    model_config = ConfigDict(extra="allow")


class SubmittedFacts(_Facts):
    """Of `submitted`."""

    kind: JobKind = Field(description="Of the job.")


class ClaimedFacts(_Facts):
    """Of `claimed`."""

    executor: str = Field(description="That runs the attempt.", examples=["cpu(0)"])


class MetricFacts(_Facts):
    """Of `metric`: final values over one epoch of one part of the data."""

    epoch: int = Field(description="From 0.")
    part: Literal["train", "validation"] = Field(description="Of the data.")
    metrics: dict[str, float | None] = Field(description="By name; null for NaN and infinity.")
    seconds: float | None = Field(default=None, description="How long the epoch took.")


class StatisticsFacts(_Facts):
    """Of `statistics`: of arrays in one batch."""

    epoch: int = Field(description="From 0.")
    batch: int = Field(description="Of the epoch, from 0.")
    arrays: list[StatisticView] = Field(description="One by one.")


class LogFacts(_Facts):
    """Of `log`."""

    level: Literal["debug", "info", "warning", "error"] = Field(description="How bad it is.")
    message: str = Field(description="The line.")


class CheckpointFacts(_Facts):
    """Of `checkpoint`."""

    epoch: int = Field(description="Of the checkpoint.")
    batch: int = Field(description="Of the epoch; 0 between two.")


class OutcomeFacts(_Facts):
    """Of the end of an attempt: `succeeded`, `failed`, `released`, `deferred` and others."""

    reason: str | None = Field(
        default=None, description="Why the attempt ended before the job did."
    )
    error: JobFailure | None = Field(default=None, description="The error by which it failed.")
    result: dict[str, Any] | None = Field(default=None, description="The job's `result`.")
    retry: int | None = Field(default=None, description="Number of this automatic retry.")
    not_before: Timestamp | None = Field(
        default=None, description="The job is not started before this time."
    )


class CreatedFacts(_Facts):
    """Of `module_created`."""

    kind: ModuleKind = Field(description="Of the module.")
    origin: str | None = Field(description="The module that it was made from; null for none.")


class BoundFacts(_Facts):
    """Of `module_bound`."""

    for_training: bool = Field(description="Whether it can be trained.")
    buckets: list[str] = Field(description="Keys of those beside the default one.")


class LoadedFacts(_Facts):
    """Of `module_loaded`."""

    checkpoint: str = Field(description="Its tag.", examples=["12"])
    optimizer_states: bool = Field(description="Whether those of the optimizer were loaded, too.")


class ParamsFacts(_Facts):
    """Of `module_params_changed`."""

    source: Literal["init", "set", "checkpoint", "training"] = Field(
        description="Where they came from."
    )
    durable: bool = Field(description="False while no checkpoint, seed or file has them.")


class ChangedFacts(_Facts):
    """Of `module_changed`."""

    fields: list[str] = Field(description="What is other than before.", examples=[["serving"]])


class CheckpointedFacts(_Facts):
    """Of `module_checkpointed`."""

    checkpoint: str = Field(description="Its tag.", examples=["12"])
    job_id: int | None = Field(description="The job that wrote it; null for none.")


class PromotionFacts(_Facts):
    """Of `module_promoted` and `module_rolled_back`."""

    version: str = Field(description="That answers now: `live` or a number.", examples=["3"])
    before: str = Field(description="That answered before.", examples=["live"])


class RestoredFacts(_Facts):
    """Of `module_restored`."""

    checkpoint: str | None = Field(description="It came back from; null for none.")
    generation: int = Field(description="The module's since then.")
    warning: str | None = Field(description="What is wrong with newer checkpoints.")


class ReasonFacts(_Facts):
    """Of `module_quarantined` and `executor_lost`."""

    reason: str = Field(description="What happened.")


class StartedFacts(_Facts):
    """Of `executor_started` and `executor_restarted`."""

    restarts: int = Field(description="How often this server started it again.")


class NoFacts(_Facts):
    """Of all other types."""


EVENT_FACTS = (
    *(JobProgress, SubmittedFacts, ClaimedFacts, MetricFacts, StatisticsFacts, LogFacts),
    *(CheckpointFacts, OutcomeFacts, CreatedFacts, BoundFacts, LoadedFacts, ParamsFacts),
    *(ChangedFacts, CheckpointedFacts, PromotionFacts, RestoredFacts, ReasonFacts, StartedFacts),
    NoFacts,
)
"""One of these each event has."""
