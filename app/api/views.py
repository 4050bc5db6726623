"""What clients get to see of modules, jobs, datasets and checkpoints."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from app.api.fact_views import LiveModuleView
from app.api.finding_views import FindingsView
from app.api.instance_views import InstanceView
from app.api.timestamps import Timestamp, with_timestamps
from app.domain.archive import ArchiveFacts
from app.domain.checkpoint import CheckpointManifest
from app.domain.codec import to_plain
from app.domain.dataset import DatasetRecord
from app.domain.events import EventRow, EventType
from app.domain.job import Job, JobStatus
from app.domain.module import SINGLE, BindSpec, InitSpec, ModuleRecord, OptimizerSpec
from app.domain.origin import Origin
from app.domain.restoration import ModuleState, RestoreStatus
from app.domain.serving import ServingSpec
from app.domain.transforms import ImageTransform, TextTransform, Transform
from app.folder_names import without_folder_names
from app.services.jobs import JobOutlook, Series

__all__ = [
    "CheckpointView",
    "DatasetView",
    "ErrorCodeView",
    "EventView",
    "ExecutorView",
    "FieldFault",
    "JobView",
    "ModuleView",
    "PageView",
    "ProblemView",
    "SeriesView",
    "StatisticView",
    "StatusView",
    "checkpoint_view",
    "dataset_view",
    "event_view",
    "job_view",
    "module_view",
    "series_view",
]

T = TypeVar("T")


class FieldFault(BaseModel):
    """One field at fault."""

    field: str = Field(examples=["data_shapes[0].shape"])
    got: str
    expected: str
    hint: str = ""


class ProblemView(BaseModel):
    """An RFC 9457 answer to a request that was refused."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=["/v1/errors/not_found"])
    title: str
    status: int
    detail: str
    instance: str
    code: str = Field(examples=["not_found"])
    request_id: str
    errors: list[FieldFault] = []


class ErrorCodeView(BaseModel):
    """An error code, of answers or of failed jobs."""

    code: str = Field(examples=["not_found"])
    status: int | None = Field(
        description="Status of the answers; null for a code that only jobs have.", examples=[404]
    )
    title: str = Field(examples=["Not found"])
    remedy: str = Field(description="What to do about it.")
    type: str = Field(
        description="As problems have it: the address of this.", examples=["/v1/errors/not_found"]
    )


class PageView(BaseModel, Generic[T]):
    """One page of a list."""

    items: list[T]
    next_cursor: str | None = Field(
        default=None, description="Send it as `cursor` for the next page; null on the last one."
    )


class StatusView(BaseModel):
    """How the server is."""

    status: str = Field(examples=["ready"])
    executors: dict[str, str] = Field(default={}, examples=[{"cpu(0)": "ready"}])
    warnings: list[str] = Field(
        default=[],
        description="Modules that failed, or came back from an older checkpoint; the others serve.",
    )


class TextTransformView(BaseModel):
    """How a text becomes an input, without the tokens of its vocabulary."""

    type: Literal["text"]
    vocabulary_size: int = Field(description="Tokens of the vocabulary.")
    tokens: str = Field(description="What a token is.", examples=["words"])
    lowercase: bool
    unknown: str | None = Field(description="The token for those not in the vocabulary.")
    padding: str | None = Field(description="The token that shorter texts are filled up with.")
    max_length: int | None
    longer: str = Field(examples=["cut"])


class ModuleView(BaseModel):
    """A module."""

    name: str = Field(examples=["lenet"])
    kind: str = Field(examples=["module"])
    state: str = Field(
        examples=["ready"],
        description="`ready`: calls are answered, the first of them after the module was brought "
        "to its device. `params_lost`: its parameters were in memory alone and are lost. "
        "`failed`: it cannot be brought to its device; `reason` says why, and "
        "`POST /v1/modules/{module}/restore` tries again.",
    )
    reason: str | None = Field(description="Why it is failed; null for all the others.")
    resident: bool | None = Field(
        description="Whether it is on its device at present; null where its executor does not "
        "say so at once."
    )
    durable: bool = Field(
        description="False while parameters or states were changed and no checkpoint, seed or "
        "file has them: they are lost with the executor, and predict is then 409 `params_lost`."
    )
    restored_from: str | None = Field(
        description="The checkpoint that it was brought back from, where that is not `checkpoint` "
        "because that one is damaged."
    )
    warning: str | None = Field(description="What is wrong with the newer ones.")
    stage: str = Field(examples=["ready"])
    data_names: list[str]
    label_names: list[str]
    state_names: list[str]
    fixed_param_names: list[str]
    fixed_param_patterns: list[str]
    excluded_param_patterns: list[str]
    compression_params: dict[str, Any] | None
    origin: Origin | None = Field(description="The module it was made from.")
    bucket_keys: list[str] = Field(description="Empty for a module without buckets.")
    default_bucket_key: str | None
    archive: ArchiveFacts | None = Field(
        description="What was taken over of the archive of mxnet-model-server that it was made "
        "from, and what was not."
    )
    is_from_folder: bool = Field(
        description="Whether it is a model of the models folder, which is changed there alone."
    )
    executor: str = Field(examples=["cpu(0)"])
    contexts: list[str]
    serving: ServingSpec = Field(description="How predictions are served.")
    instances: list[InstanceView] = Field(
        description="The executors that answer predictions, the home first."
    )
    transforms: dict[str, ImageTransform | TextTransformView] = Field(
        description="How images and texts become inputs, by the input."
    )
    labelled_outputs: list[str] = Field(description="Outputs whose classes have labels.")
    bind: BindSpec | None
    init: InitSpec | None
    optimizer: OptimizerSpec | None
    params: str | None = Field(description="Where the parameters came from.")
    checkpoint: str | None = Field(description="Tag of the newest checkpoint.")
    generation: int = Field(description="Changes whenever state in memory was lost.")
    version: int
    etag: str = Field(description="What `If-Match` and `If-None-Match` take.", examples=['"12-3"'])
    created_at: Timestamp
    updated_at: Timestamp
    live: LiveModuleView | None = Field(
        default=None,
        description="What the executor knows: arguments, shapes, memory; null while it is down.",
    )
    found: FindingsView | None = Field(
        default=None,
        description="What it was taken for; in the answer to its creation from a symbol alone.",
    )


class JobView(BaseModel):
    """A job."""

    id: int
    kind: str = Field(examples=["fit"])
    module: str
    status: str = Field(examples=["running"])
    params: dict[str, Any]
    priority: int
    requested: str | None
    attempt: int = Field(description="Counts all attempts there were.")
    lost: int = Field(description="Attempts lost in a row since the last checkpoint.")
    max_attempts: int = Field(description="It fails when so many are lost in a row.")
    retries: int = Field(description="How often it was tried again by itself after a failure.")
    max_retries: int
    not_before: Timestamp | None = Field(description="It is left alone until then.")
    deadline_at: Timestamp | None
    timeout_seconds: float | None
    ran_seconds: float = Field(description="How long its ended attempts have run.")
    queue_position: int | None = Field(
        default=None, description="Its place among all that its executor has queued, from 1."
    )
    eta_seconds: float | None = Field(
        default=None,
        description="In how many seconds it is likely to end, a queued one from its turn on; "
        "null where that is not known.",
    )
    executor: str | None
    progress: dict[str, Any]
    result: dict[str, Any] | None
    error: dict[str, Any] | None = Field(description="Why it failed.")
    setback: dict[str, Any] | None = Field(
        description="Why the newest attempt that was lost, or is made again, did not end it: while "
        "it waits for room on the disk, `storage_full`."
    )
    etag: str = Field(description="What `If-Match` and `If-None-Match` take.", examples=['"12-3"'])
    created_at: Timestamp
    started_at: Timestamp | None
    finished_at: Timestamp | None
    updated_at: Timestamp


class SeriesView(BaseModel):
    """A metric over the batches of a fit; the lists are of equal length."""

    series: str = Field(examples=["loss"])
    total: int = Field(description="Batches there are.")
    steps: list[int] = Field(description="Batches before this one, in all epochs.")
    epochs: list[int]
    batches: list[int]
    values: list[float | None] = Field(description="Null for NaN and infinity.")


class EventView(BaseModel):
    """Something that happened to a job, a module or an executor."""

    id: int = Field(description="Grows with every event; what `Last-Event-ID` and `after` take.")
    type: EventType = Field(
        description="What happened; those of modules begin with `module_`, those of executors "
        "with `executor_`, all others are of jobs.",
        examples=["progress"],
    )
    job_id: int | None = Field(description="Null where it is of no job.", examples=[1])
    module: str | None = Field(
        description="The module, or the job's; null for an executor.", examples=["lenet"]
    )
    executor: str | None = Field(
        description="That has the module, or runs the job; null where none does yet.",
        examples=["cpu(0)"],
    )
    attempt: int | None = Field(description="Of the job, 0 before the first.")
    status: JobStatus | None = Field(description="The job's, after it.", examples=["running"])
    data: dict[str, Any] = Field(description="What is told beside; it depends on the type.")
    created_at: Timestamp


class ArrayView(BaseModel):
    """One array of a dataset."""

    name: str = Field(examples=["train_images"])
    shape: list[int] = Field(examples=[[4000, 28, 28]])
    dtype: str = Field(examples=["uint8"])


class DatasetView(BaseModel):
    """A dataset."""

    name: str = Field(examples=["mnist"])
    kind: str = Field(examples=["npz"])
    arrays: list[ArrayView]
    examples: int | None
    size: int
    sha256: str
    etag: str = Field(description="What `If-Match` and `If-None-Match` take.", examples=['"12-3"'])
    created_at: Timestamp
    path: str | None = Field(description="Of a file that was added where it lies.")


class FileView(BaseModel):
    """A file of a checkpoint."""

    size: int
    sha256: str


class CheckpointView(BaseModel):
    """A checkpoint."""

    tag: str = Field(examples=["12"])
    module: str
    epoch: int
    batch: int
    files: dict[str, FileView]
    metrics: dict[str, Any]
    job_id: int | None
    size: int
    etag: str = Field(description="What `If-Match` and `If-None-Match` take.", examples=['"12-3"'])
    created_at: Timestamp


class StatisticView(BaseModel):
    """Statistics of one array; those of its elements that are finite."""

    name: str = Field(examples=["fc_weight"])
    of: str = Field(
        examples=["gradient"],
        description="Output of an operator, backward (gradient of an operator's input), "
        "parameter, gradient of a parameter, or auxiliary.",
    )
    device: str = Field(examples=["cpu(0)"])
    shape: list[int]
    magnitude: float | None = Field(description="Norm / sqrt(size), as MXNet's Monitor has it.")
    mean: float | None
    std: float | None
    min: float | None
    max: float | None
    nonfinite: int = Field(description="Elements that are NaN or infinite.")


class ExecutorView(BaseModel):
    """An executor."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(examples=["cpu(0)"])
    alive: bool
    state: str | None = Field(
        default=None, examples=["ready"], description="Null of one within the server's process."
    )
    restarts: int | None = Field(default=None, description="How often it was started again.")
    last_end: str | None = Field(default=None, description="Why its process before ended.")
    pid: int | None = Field(default=None, description="Its process.")
    doing: str | None = Field(default=None, description="What it is at.")
    busy_seconds: float | None = Field(default=None, description="For how long.")
    rss_bytes: int | None = Field(default=None, description="Memory of its process.")
    calls_under_way: int | None = None
    request_bytes: int | None = Field(default=None, description="Shared memory of its requests.")


def module_view(
    record: ModuleRecord,
    restored: RestoreStatus,
    resident: bool | None,
    instances: list[InstanceView],
) -> ModuleView:
    """Return the view of a module, its symbols left out.

    Args:
        record: the module.
        restored: how its newest restore went.
        resident: whether it is on its device; None where that is not known.
        instances: the views of its instances.
    """
    plain = to_plain(record.evolve(symbols={}, labels={}, transforms={}))  # which may be large
    has_buckets = list(record.symbols) != [SINGLE]
    return ModuleView(
        **{
            name: plain[name]
            for name in ModuleView.model_fields
            if name in plain and name not in _OWN and name not in _VALUES
        },
        name=record.public_name,
        origin=_origin_of(record),
        transforms={name: _transform_view(one) for name, one in record.transforms.items()},
        labelled_outputs=list(record.labels),
        is_from_folder=record.folder is not None,
        etag=record.etag,
        stage=record.stage.value,
        bucket_keys=list(record.symbols) if has_buckets else [],
        default_bucket_key=record.default_bucket_key if has_buckets else None,
        checkpoint=str(record.checkpoint) if record.checkpoint else None,
        state=_state_of(record, restored),
        reason=_shown(restored.failure),
        resident=resident,
        instances=instances,
        restored_from=str(restored.restored_from) if restored.restored_from else None,
        warning=_shown(restored.warning),
        **{name: getattr(record, name) for name in _VALUES},
    )


_OWN = frozenset(
    {
        *("name", "etag", "stage", "bucket_keys", "default_bucket_key", "checkpoint", "live"),
        *("found", "origin", "transforms"),
    }
)


_VALUES = ("archive", "serving", "bind", "init", "optimizer")


def _shown(text: str | None) -> str | None:
    return None if text is None else without_folder_names(text)


def _origin_of(record: ModuleRecord) -> Origin | None:
    origin = record.origin
    if origin is None:
        return None
    return dataclasses.replace(origin, module=without_folder_names(origin.module))


def _transform_view(transform: Transform) -> ImageTransform | TextTransformView:
    if not isinstance(transform, TextTransform):
        return transform
    names = TextTransformView.model_fields.keys() - {"vocabulary_size"}
    fields = {name: getattr(transform, name) for name in names}
    return TextTransformView(**fields, vocabulary_size=len(transform.vocabulary))


def _state_of(record: ModuleRecord, restored: RestoreStatus) -> ModuleState:
    if restored.failure is not None:
        return ModuleState.FAILED
    return ModuleState.PARAMS_LOST if record.lost else ModuleState.READY


def job_view(job: Job, outlook: JobOutlook | None = None) -> JobView:
    """Return the view of a job, with its outlook where that was asked for."""
    plain = to_plain(job)
    fields = {name: plain[name] for name in JobView.model_fields if name in plain}
    view = JobView(**fields, etag=job.etag)
    if outlook is not None:
        view.queue_position, view.eta_seconds = outlook.queue_position, outlook.eta_seconds
    return view


def series_view(name: str, series: Series) -> SeriesView:
    """Return the view of a series."""
    return SeriesView(
        series=name,
        total=series.total,
        steps=series.steps.tolist(),
        epochs=series.epochs.tolist(),
        batches=series.batches.tolist(),
        values=[value if math.isfinite(value) else None for value in series.values.tolist()],
    )


def event_view(row: EventRow) -> EventView:
    """Return the view of an event."""
    plain = to_plain(row)
    return EventView(**plain | {"data": with_timestamps(plain["data"])})


def dataset_view(record: DatasetRecord) -> DatasetView:
    """Return the view of a dataset."""
    plain = to_plain(record)
    fields = {name: plain[name] for name in DatasetView.model_fields if name in plain}
    return DatasetView(**fields, etag=record.etag)


def checkpoint_view(manifest: CheckpointManifest) -> CheckpointView:
    """Return the view of a checkpoint."""
    plain = to_plain(manifest)
    fields = {name: plain[name] for name in CheckpointView.model_fields if name in plain}
    fields["module"] = without_folder_names(manifest.module)
    return CheckpointView(**fields, etag=manifest.etag, tag=str(manifest.tag), size=manifest.size)
