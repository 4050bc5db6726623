"""Messages between the dispatcher and the executor that runs a job.

To the executor, as parameters of two host methods:

    start_job    JobStart    returns at once; the job then runs between other calls
    control_job  JobControl  pause or cancel; takes effect after the current batch

From the executor, through ``ExecutorClient.events()``, each naming the job and the attempt:

    JobPrepared                                             a fit only, before its first batch
    JobProgress  JobMetric  JobStatistics                   while it runs
    JobLog  JobCheckpoint                                   while it runs
    JobDone  JobFailed  JobPaused  JobCancelled             once, last

``JobPaused`` comes after a ``JobCheckpoint`` of the position where it stopped. The dispatcher drops
messages of an attempt that no longer has the job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from app.domain.checkpoint import CheckpointTag
from app.domain.codec import from_plain, to_plain
from app.domain.dataset import DatasetRecord
from app.domain.job import JobAction, JobKind
from app.domain.module import BindSpec, InitSpec, OptimizerSpec

__all__ = [
    "DatasetFile",
    "ExecutorEvent",
    "JobCancelled",
    "JobCheckpoint",
    "JobControl",
    "JobDone",
    "JobFailed",
    "JobLog",
    "JobMetric",
    "JobPaused",
    "JobPrepared",
    "JobProgress",
    "JobStart",
    "JobStatistics",
    "control_from_wire",
    "event_from_wire",
    "start_from_wire",
    "to_wire",
    "without_outdated",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetFile:
    """A dataset that the job reads, and the path of its file."""

    record: DatasetRecord
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStart:
    """Everything an executor needs to run one attempt of a job.

    Attributes:
        params: plain form of ``app.domain.job_params``, already validated.
        module: name of the module.
        datasets: those that ``params`` mentions, by name.
        checkpoint_root: directory of the module's checkpoints; written with
            ``app.files.checkpoint_files.write_checkpoint``.
        resume: directory of the complete checkpoint to resume from; None to start from the
            beginning.
        warnings: about damaged checkpoints, which the fit cannot resume from.
        output_path: where a predict job writes its npz; None for the others.
        base: directory of the checkpoint whose parameters initialization takes over.
        series_path: where a fit writes the metrics of every batch; None if it does not.
        init: how a fit initializes a module without parameters, unless its params specify it.
        optimizer: what a fit trains with, unless its params or the module specify one.
        begin_epoch: the first epoch of a fit, unless its params specify one.
    """

    job_id: int
    attempt: int
    kind: JobKind
    params: Mapping[str, Any]
    module: str
    datasets: Mapping[str, DatasetFile]
    checkpoint_root: str
    resume: str | None = None
    warnings: tuple[str, ...] = ()
    output_path: str | None = None
    base: str | None = None
    series_path: str | None = None
    init: InitSpec | None = None
    optimizer: OptimizerSpec | None = None
    begin_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobControl:
    """Ask a running job to stop: paused with a checkpoint, or cancelled.

    Attributes:
        is_void: the attempt no longer has the job: it ends without a report, and the next attempt
            must not see what it trained.
    """

    job_id: int
    attempt: int
    action: JobAction
    is_void: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPrepared:
    """How a fit bound and prepared the module, to be kept in the module's record after the job.

    Attributes:
        init: how its parameters were initialized; None if it had parameters already.
        optimizer: the optimizer it trains with.
        labels: labels of outputs: the names of the dataset's classes.
    """

    type: Literal["prepared"] = "prepared"
    job_id: int
    attempt: int
    bind: BindSpec
    init: InitSpec | None
    optimizer: OptimizerSpec
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """The progress of a job.

    Attributes:
        epoch: the current epoch, from 0.
        epochs: the last one, exclusive.
        begin_epoch: the job's first one.
        batch: batches done of the current epoch.
        batches: batches per epoch; None if not known.
        samples_per_second: since the last report.
        metrics: running values of the training metrics (and of the loss, if known).
    """

    type: Literal["progress"] = "progress"
    job_id: int
    attempt: int
    epoch: int
    epochs: int
    begin_epoch: int = 0
    batch: int
    batches: int | None = None
    samples: int = 0
    samples_per_second: float | None = None
    metrics: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMetric:
    """Final values of the metrics over one epoch of one part of the data."""

    type: Literal["metric"] = "metric"
    job_id: int
    attempt: int
    epoch: int
    part: Literal["train", "validation"]
    metrics: Mapping[str, float | None]
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatistics:
    """Statistics of arrays in one batch, counted from 0."""

    type: Literal["statistics"] = "statistics"
    job_id: int
    attempt: int
    epoch: int
    batch: int
    arrays: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLog:
    """One line for the reader of the job's log."""

    type: Literal["log"] = "log"
    job_id: int
    attempt: int
    level: Literal["debug", "info", "warning", "error"] = "info"
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCheckpoint:
    """A checkpoint was written, synced and renamed to its place."""

    type: Literal["checkpoint"] = "checkpoint"
    job_id: int
    attempt: int
    epoch: int
    batch: int = 0

    @property
    def tag(self) -> CheckpointTag:
        """The position in the training as a tag."""
        return CheckpointTag(self.epoch, self.batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDone:
    """The job succeeded with this ``result``."""

    type: Literal["done"] = "done"
    job_id: int
    attempt: int
    result: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailed:
    """The job failed; ``code`` is one of ``app.errors.http``.

    Attributes:
        is_unsaved: it leaves the module with parameters that no checkpoint has.
    """

    type: Literal["failed"] = "failed"
    job_id: int
    attempt: int
    code: str
    message: str
    field: str | None = None
    is_unsaved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPaused:
    """The job was paused; it resumes from its latest checkpoint."""

    type: Literal["paused"] = "paused"
    job_id: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelled:
    """The job was cancelled; for the attributes see ``JobFailed``."""

    type: Literal["cancelled"] = "cancelled"
    job_id: int
    attempt: int
    is_unsaved: bool = False


ExecutorEvent: TypeAlias = (
    JobPrepared
    | JobProgress
    | JobMetric
    | JobStatistics
    | JobLog
    | JobCheckpoint
    | JobDone
    | JobFailed
    | JobPaused
    | JobCancelled
)

_EVENTS: Mapping[str, type[ExecutorEvent]] = {
    "prepared": JobPrepared,
    "progress": JobProgress,
    "metric": JobMetric,
    "statistics": JobStatistics,
    "log": JobLog,
    "checkpoint": JobCheckpoint,
    "done": JobDone,
    "failed": JobFailed,
    "paused": JobPaused,
    "cancelled": JobCancelled,
}


def to_wire(message: JobStart | JobControl | ExecutorEvent) -> dict[str, Any]:
    """Return the message as plain values."""
    plain: dict[str, Any] = to_plain(message)
    return plain


def start_from_wire(data: Mapping[str, Any]) -> JobStart:
    """Read the parameters of ``start_job``."""
    return from_plain(JobStart, dict(data))


def control_from_wire(data: Mapping[str, Any]) -> JobControl:
    """Read the parameters of ``control_job``."""
    return from_plain(JobControl, dict(data))


def event_from_wire(data: Mapping[str, Any]) -> ExecutorEvent | None:
    """Read what ``events()`` yields; None for an event that is not about a job."""
    cls = _EVENTS.get(str(data.get("type")))
    return None if cls is None else from_plain(cls, dict(data))


def without_outdated(messages: Sequence[ExecutorEvent]) -> list[ExecutorEvent]:
    """Drop progress reports that a later report of the same job supersedes."""
    newest = {m.job_id: i for i, m in enumerate(messages) if isinstance(m, JobProgress)}
    return [
        message
        for i, message in enumerate(messages)
        if not isinstance(message, JobProgress) or newest[message.job_id] == i
    ]
