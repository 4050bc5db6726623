"""The `data` of events, by event type."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.api.timestamps import Timestamp
from app.api.v1.fact_views import JobFailure, JobProgress
from app.api.v1.views import StatisticView
from app.domain.job import JobKind
from app.domain.module import ModuleKind

__all__ = ["EVENT_FACTS"]


class _Facts(BaseModel):
    """Events of other versions may have more fields."""

    model_config = ConfigDict(extra="allow")


class SubmittedFacts(_Facts):
    """Data of `submitted`."""

    kind: JobKind = Field(description="Kind of the job.")


class ClaimedFacts(_Facts):
    """Data of `claimed`."""

    executor: str = Field(description="The executor that runs the attempt.", examples=["cpu(0)"])


class MetricFacts(_Facts):
    """Data of `metric`: final values over one epoch of one part of the data."""

    epoch: int = Field(description="Epoch, from 0.")
    part: Literal["train", "validation"] = Field(description="Part of the data.")
    metrics: dict[str, float | None] = Field(
        description="Values by name; null for NaN and infinity."
    )
    seconds: float | None = Field(default=None, description="Duration of the epoch.")


class StatisticsFacts(_Facts):
    """Data of `statistics`: statistics of arrays in one batch."""

    epoch: int = Field(description="Epoch, from 0.")
    batch: int = Field(description="Batch of the epoch, from 0.")
    arrays: list[StatisticView] = Field(description="Statistics of each array.")


class LogFacts(_Facts):
    """Data of `log`."""

    level: Literal["debug", "info", "warning", "error"] = Field(description="Severity.")
    message: str = Field(description="Text of the line.")


class CheckpointFacts(_Facts):
    """Data of `checkpoint`."""

    epoch: int = Field(description="Epoch of the checkpoint.")
    batch: int = Field(description="Number of batches of the epoch; 0 between two epochs.")


class OutcomeFacts(_Facts):
    """Data of the end of an attempt: `succeeded`, `failed`, `released`, `deferred` and others."""

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
    """Data of `module_created`."""

    kind: ModuleKind = Field(description="Kind of the module.")
    origin: str | None = Field(description="The module from which it was made; null for none.")


class BoundFacts(_Facts):
    """Data of `module_bound`."""

    for_training: bool = Field(description="Whether it can be trained.")
    buckets: list[str] = Field(description="Keys of the buckets beside the default one.")


class LoadedFacts(_Facts):
    """Data of `module_loaded`."""

    checkpoint: str = Field(description="Tag of the checkpoint.", examples=["12"])
    optimizer_states: bool = Field(description="Whether the optimizer's states were loaded, too.")


class ParamsFacts(_Facts):
    """Data of `module_params_changed`."""

    source: Literal["init", "set", "checkpoint", "training"] = Field(
        description="Where the parameters came from."
    )
    durable: bool = Field(
        description="False if no checkpoint, seed or file has the parameters yet."
    )


class ChangedFacts(_Facts):
    """Data of `module_changed`."""

    fields: list[str] = Field(description="Names of the changed fields.", examples=[["serving"]])


class CheckpointedFacts(_Facts):
    """Data of `module_checkpointed`."""

    checkpoint: str = Field(description="Tag of the checkpoint.", examples=["12"])
    job_id: int | None = Field(description="The job that wrote it; null for none.")


class PromotionFacts(_Facts):
    """Data of `module_promoted` and `module_rolled_back`."""

    version: str = Field(
        description="The version that answers now: `live` or a number.", examples=["3"]
    )
    before: str = Field(description="The version that answered before.", examples=["live"])


class RestoredFacts(_Facts):
    """Data of `module_restored`."""

    checkpoint: str | None = Field(
        description="The checkpoint from which it was restored; null for none."
    )
    generation: int = Field(description="The module's generation since then.")
    warning: str | None = Field(
        description="What is wrong with newer checkpoints; null for nothing."
    )


class ReasonFacts(_Facts):
    """Data of `module_quarantined` and `executor_lost`."""

    reason: str = Field(description="What happened.")


class StartedFacts(_Facts):
    """Data of `executor_started` and `executor_restarted`."""

    restarts: int = Field(description="How often this server has restarted it.")


class NoFacts(_Facts):
    """Data of all other types."""


EVENT_FACTS = (
    *(JobProgress, SubmittedFacts, ClaimedFacts, MetricFacts, StatisticsFacts, LogFacts),
    *(CheckpointFacts, OutcomeFacts, CreatedFacts, BoundFacts, LoadedFacts, ParamsFacts),
    *(ChangedFacts, CheckpointedFacts, PromotionFacts, RestoredFacts, ReasonFacts, StartedFacts),
    NoFacts,
)
"""The data of each event is one of these."""
