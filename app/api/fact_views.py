"""What executors tell of modules, jobs and themselves, as clients see it."""

from __future__ import annotations

from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, RootModel

from app.domain.module import BindSpec, BucketShapes

__all__ = [
    "FitResult",
    "JobFailure",
    "JobProgress",
    "LiveModuleView",
    "OptimizerView",
    "PartMetrics",
    "PredictResult",
    "PreviewView",
    "ScoreResult",
    "StepView",
    "UpdateView",
]

Metrics: TypeAlias = dict[str, float | None]


class _Facts(BaseModel):
    """Executors of other versions may tell more."""

    model_config = ConfigDict(extra="allow")


class OptimizerView(_Facts):
    """An optimizer and where it stands."""

    name: str = Field(examples=["sgd"])
    options: dict[str, Any] = Field(description="Its arguments, as they were given.")
    kvstore: str | None
    learning_rate: float = Field(description="At present, a scheduler's taken into account.")
    num_update: int = Field(description="Updates made.")
    rescale_grad: float


class StepView(_Facts):
    """Where the step level stands after a call."""

    generation: int = Field(description="Changes whenever state in memory was lost.")
    sequence: int = Field(description="Counts the calls of the step level since then.")


class UpdateView(StepView):
    """Where the step level stands after an update."""

    num_update: int = Field(description="Updates made by the optimizer.")


class PreviewView(RootModel[dict[str, list[Any]]]):
    """By array its first rows, null for one too long to show; of a text its `lines`."""


class VariableView(_Facts):
    """An input, parameter, state or auxiliary state; shape and dtype once it is bound."""

    name: str = Field(examples=["fc_weight"])
    role: str = Field(examples=["parameter"])
    fixed: bool = Field(description="Whether training leaves it as it is.")
    shape: list[int] | None = None
    dtype: str | None = None


class OutputView(_Facts):
    """An output."""

    name: str = Field(examples=["softmax_output"])
    shape: list[int]
    dtype: str
    batch_axis: int | None = Field(
        default=0,
        description="The axis that has the examples; null where none has, and predictions are "
        "answered whole.",
    )


class MemoryView(_Facts):
    """Bytes that a module takes on its device, by what for."""

    parameters: int
    optimizer: int
    training: int
    predict: int


class LiveModuleView(_Facts):
    """What an executor knows of a module that is on its device."""

    name: str
    kind: str
    stage: str
    generation: int
    job_id: int | None = Field(description="The job that works on it.")
    data_names: list[str]
    label_names: list[str]
    output_names: list[str]
    contexts: list[str]
    bind: BindSpec | None
    has_unsaved: bool
    optimizer: OptimizerView | None
    arguments: list[VariableView]
    buckets: dict[str, BucketShapes] = Field(description="Shapes of the bound ones by key.")
    outputs: list[OutputView]
    memory: MemoryView | None


class JobProgress(_Facts):
    """How far a job is; empty before its first report."""

    epoch: int | None = Field(default=None, description="The one in work, from 0.")
    epochs: int | None = Field(default=None, description="Of the whole job.")
    batch: int | None = Field(default=None, description="Batches done of the epoch.")
    batches: int | None = Field(default=None, description="Of an epoch; null where not known.")
    samples: int | None = None
    samples_per_second: float | None = None
    metrics: Metrics = Field(default={}, description="Running values.")


class BestCheckpoint(BaseModel):
    """The best checkpoint of a fit."""

    checkpoint: str = Field(examples=["12"])
    metric: str = Field(examples=["validation.accuracy"])
    value: float | None


class FitResult(_Facts):
    """What came out of a training."""

    epochs: int
    stopped_early: bool
    best: BestCheckpoint | None = None
    train: Metrics
    validation: Metrics
    checkpoint: str | None = Field(description="The last one saved.")
    samples: int
    seconds: float


class ScoreResult(_Facts):
    """What came out of an evaluation."""

    metrics: Metrics
    samples: int


class PredictResult(_Facts):
    """What came out of the prediction of a dataset."""

    output: str = Field(description="The dataset that has the outputs.")
    samples: int
    shapes: dict[str, list[int]]


class JobFailure(_Facts):
    """Why a job, or an attempt of it, ended."""

    code: str = Field(examples=["storage_full"], description="See `/v1/errors`.")
    message: str
    field: str | None


class PartMetrics(RootModel[dict[str, Metrics]]):
    """Values by metric, of `train` and `validation`; null for NaN and infinity."""
