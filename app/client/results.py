"""Responses about jobs, datasets, executors and errors; see ``module_results``."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from app.client.module_results import MemoryView, ModuleKind, Stage

__all__ = [
    "ArrayView",
    "BudgetView",
    "DatasetKind",
    "DatasetView",
    "DeviceMemoryView",
    "ErrorCodeView",
    "EventView",
    "ExecutorState",
    "ExecutorView",
    "FieldFault",
    "HistogramsView",
    "InputPreviewView",
    "InputPreviewsView",
    "JobAction",
    "JobEvent",
    "JobFailure",
    "JobKind",
    "JobProgress",
    "JobStatus",
    "JobVersionsView",
    "JobView",
    "NamedArrayView",
    "ResidentView",
    "RunningJobView",
    "SeriesView",
    "ServerEvent",
]

DatasetKind = Literal["npz", "npy", "csv", "jsonl", "libsvm", "recordio", "text"]
ExecutorState = Literal["stopped", "starting", "restoring", "ready", "waiting"]
JobAction = Literal["pause", "cancel"]
JobEvent = Literal[
    "submitted",
    "claimed",
    "progress",
    "metric",
    "statistics",
    "log",
    "checkpoint",
    "pause_requested",
    "cancel_requested",
    "pause_withdrawn",
    "paused",
    "resumed",
    "cancelled",
    "succeeded",
    "failed",
    "released",
    "deferred",
    "exhausted",
    "expiry_requested",
    "expired",
    "retried",
]
JobKind = Literal["fit", "score", "predict"]
JobStatus = Literal["queued", "running", "paused", "succeeded", "failed", "cancelled"]
ServerEvent = Literal[
    "module_created",
    "module_bound",
    "module_loaded",
    "module_params_changed",
    "module_changed",
    "module_checkpointed",
    "module_promoted",
    "module_rolled_back",
    "module_restored",
    "module_evicted",
    "module_params_lost",
    "module_quarantined",
    "module_deleted",
    "executor_started",
    "executor_lost",
    "executor_restarted",
]


class ArrayView(TypedDict):
    """One array of a dataset."""

    classes: list[str]
    dtype: str
    name: str
    shape: list[int]


class InputPreviewView(TypedDict):
    """The first example of a dataset, as one input of a module."""

    classes: list[str]
    dtype: str
    example: Any
    names: list[str]
    shape: list[int]
    text: str | None


class InputPreviewsView(TypedDict):
    """The first example of a dataset, as the inputs of a module."""

    inputs: dict[str, InputPreviewView]


class DatasetView(TypedDict):
    """A dataset."""

    arrays: list[ArrayView]
    classes: list[str]
    created_at: str
    etag: str
    examples: int | None
    kind: DatasetKind
    name: str
    path: str | None
    sha256: str
    size: int


class ErrorCodeView(TypedDict):
    """An error code, of answers or of failed jobs."""

    code: str
    remedy: str
    status: int | None
    title: str
    type: str


class DeviceMemoryView(TypedDict):
    """Bytes of a device's memory."""

    total: int
    used: int


class RunningJobView(TypedDict):
    """A job on an executor."""

    attempt: int
    job_id: int
    kind: JobKind
    module: str


class BudgetView(TypedDict):
    """Bytes that modules may use before the least recently used ones are evicted."""

    bytes: int
    other: int
    used: int


class ResidentView(TypedDict):
    """A module on a device."""

    generation: int
    is_replica: NotRequired[bool]
    job_id: int | None
    kind: ModuleKind
    memory: MemoryView
    name: str
    stage: Stage


class ExecutorView(TypedDict):
    """An executor."""

    alive: bool
    available_bytes: NotRequired[int | None]
    busy_seconds: NotRequired[float | None]
    calls_under_way: NotRequired[int | None]
    device: NotRequired[str | None]
    device_memory: NotRequired[DeviceMemoryView | None]
    doing: NotRequired[str | None]
    jobs: NotRequired[list[RunningJobView]]
    last_end: NotRequired[str | None]
    memory_budget: NotRequired[BudgetView | None]
    modules: NotRequired[list[ResidentView]]
    name: str
    numpy: NotRequired[str | None]
    pid: NotRequired[int | None]
    request_bytes: NotRequired[int | None]
    restarts: NotRequired[int | None]
    rss_bytes: NotRequired[int | None]
    state: NotRequired[ExecutorState | None]


class JobFailure(TypedDict):
    """Why a job, or an attempt of it, failed."""

    code: str
    field: str | None
    message: str


class JobProgress(TypedDict):
    """Progress of a job; empty before its first report."""

    batch: NotRequired[int | None]
    batches: NotRequired[int | None]
    begin_epoch: NotRequired[int | None]
    epoch: NotRequired[int | None]
    epochs: NotRequired[int | None]
    metrics: NotRequired[dict[str, float | None]]
    samples: NotRequired[int | None]
    samples_per_second: NotRequired[float | None]


class JobView(TypedDict):
    """A job."""

    attempt: int
    created_at: str
    deadline_at: str | None
    error: JobFailure | None
    eta_seconds: NotRequired[float | None]
    etag: str
    executor: str | None
    finished_at: str | None
    id: int
    kind: JobKind
    lost: int
    max_attempts: int
    max_retries: int
    module: str
    not_before: str | None
    params: dict[str, Any]
    priority: int
    progress: JobProgress
    queue_position: NotRequired[int | None]
    ran_seconds: float
    requested: JobAction | None
    result: dict[str, Any] | None
    retries: int
    setback: JobFailure | None
    started_at: str | None
    status: JobStatus
    timeout_seconds: float | None
    updated_at: str
    versions: NotRequired[JobVersionsView | None]


class JobVersionsView(TypedDict):
    """The numbers of the versions at the ends of a fit's epochs."""

    first: int
    last: int


class EventView(TypedDict):
    """Something that happened to a job, a module or an executor."""

    attempt: int | None
    created_at: str
    data: dict[str, Any]
    executor: str | None
    id: int
    job_id: int | None
    module: str | None
    status: JobStatus | None
    type: JobEvent | ServerEvent


class SeriesView(TypedDict):
    """A metric over the batches of a fit; the lists are of equal length."""

    batches: list[int]
    epochs: list[int]
    series: str
    steps: list[int]
    total: int
    values: list[float | None]


class FieldFault(TypedDict):
    """An invalid field."""

    expected: str
    field: str
    got: str
    hint: NotRequired[str]


class NamedArrayView(TypedDict):
    """A parameter, or its gradient."""

    name: str
    of: Literal["parameter", "gradient"]


class HistogramsView(TypedDict):
    """Histograms of one array over the batches of a fit, in bins of equal width."""

    array: NamedArrayView
    arrays: list[NamedArrayView]
    batches: list[int]
    counts: list[list[int]]
    epochs: list[int]
    highs: list[float]
    lows: list[float]
    nonfinite: list[int]
    total: int
