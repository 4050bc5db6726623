"""Jobs and events as clients see them."""

from __future__ import annotations

import math
from typing import Any

from pydantic import BaseModel, Field

from app.api.timestamps import Timestamp, with_timestamps
from app.domain.codec import to_plain
from app.domain.events import EventRow, EventType
from app.domain.fit_epochs import epochs_of
from app.domain.job import Job, JobAction, JobKind, JobStatus
from app.domain.named_arrays import ArrayKind
from app.services.jobs.jobs import Histograms, JobOutlook, Series

__all__ = [
    "EventView",
    "HistogramsView",
    "JobView",
    "SeriesView",
    "event_view",
    "histograms_view",
    "job_view",
    "series_view",
]


class JobVersionsView(BaseModel):
    """The numbers of the versions at the ends of a fit's epochs."""

    first: int = Field(description="That of its first epoch.", examples=[13])
    last: int = Field(description="That of its last epoch.", examples=[17])


class JobView(BaseModel):
    """A job."""

    id: int = Field(description="Number of the job.")
    kind: JobKind = Field(description="Kind of the job.", examples=["fit"])
    module: str = Field(description="Module on which it works.")
    status: JobStatus = Field(description="Status of the job.", examples=["running"])
    params: dict[str, Any] = Field(description="The job's parameters, as submitted.")
    versions: JobVersionsView | None = Field(
        default=None,
        description="Versions that a fit writes; null for other jobs. A queued fit gets higher "
        "numbers if others are written before it starts, unless it has a `begin_epoch`.",
    )
    priority: int = Field(description="A smaller number runs earlier.")
    requested: JobAction | None = Field(
        description="The action that was requested and is not carried out yet."
    )
    attempt: int = Field(description="Number of attempts so far.")
    lost: int = Field(description="Number of attempts lost in a row since the last checkpoint.")
    max_attempts: int = Field(description="The job fails if this many attempts are lost in a row.")
    retries: int = Field(description="Number of automatic retries so far.")
    max_retries: int = Field(description="Maximum number of automatic retries.")
    not_before: Timestamp | None = Field(description="The job is not started before this time.")
    deadline_at: Timestamp | None = Field(description="Deadline of the job; null for none.")
    timeout_seconds: float | None = Field(
        description="Maximum running time of all attempts together; null for no limit."
    )
    ran_seconds: float = Field(description="Total running time of its ended attempts.")
    queue_position: int | None = Field(
        default=None, description="Its position in its executor's queue, from 1."
    )
    eta_seconds: float | None = Field(
        default=None,
        description="Estimated number of seconds until it ends, or of its run if it "
        "is queued; null if unknown.",
    )
    executor: str | None = Field(description="The executor that runs or ran it.")
    progress: dict[str, Any] = Field(description="Its latest progress report.")
    result: dict[str, Any] | None = Field(description="The result, once it succeeded.")
    error: dict[str, Any] | None = Field(description="Why it failed.")
    setback: dict[str, Any] | None = Field(
        description="Why the latest attempt that was lost, or is being repeated, "
        "did not finish: `storage_full` while the job waits for disk "
        "space."
    )
    etag: str = Field(description="ETag for `If-Match` and `If-None-Match`.", examples=['"12-3"'])
    created_at: Timestamp
    started_at: Timestamp | None = Field(description="When its first attempt began.")
    finished_at: Timestamp | None = Field(description="When it ended.")
    updated_at: Timestamp


class SeriesView(BaseModel):
    """A metric over the batches of a fit; the lists are of equal length."""

    series: str = Field(description="Name of the metric.", examples=["loss"])
    total: int = Field(description="Total number of batches.")
    steps: list[int] = Field(description="Number of batches before this one, in all epochs.")
    epochs: list[int] = Field(description="Epoch of each batch, from 0.")
    batches: list[int] = Field(description="Batch within the epoch, from 0.")
    values: list[float | None] = Field(description="Values; null for NaN and infinity.")


class NamedArrayView(BaseModel):
    """A parameter, or its gradient."""

    of: ArrayKind = Field(description="Whether it is the parameter or its gradient.")
    name: str = Field(description="Name of the parameter.", examples=["fc1_weight"])


class HistogramsView(BaseModel):
    """Histograms of one array over the batches of a fit, in bins of equal width."""

    arrays: list[NamedArrayView] = Field(description="All arrays of which the fit has histograms.")
    array: NamedArrayView = Field(description="The array of these histograms.")
    total: int = Field(description="Total number of histograms.")
    epochs: list[int] = Field(description="Epoch of each histogram, from 0.")
    batches: list[int] = Field(description="Batch within the epoch, from 0.")
    lows: list[float] = Field(description="Minimum of each.")
    highs: list[float] = Field(description="Maximum of each.")
    nonfinite: list[int] = Field(description="Number of elements of each that are NaN or infinite.")
    counts: list[list[int]] = Field(description="Number of elements in each bin of each histogram.")


class EventView(BaseModel):
    """Something that happened to a job, a module or an executor."""

    id: int = Field(description="Increases with every event; for `Last-Event-ID` and `after`.")
    type: EventType = Field(
        description="What happened: types of modules begin with `module_`, those of "
        "executors with `executor_`, all others are of jobs.",
        examples=["progress"],
    )
    job_id: int | None = Field(
        description="The job; null if the event is not of a job.", examples=[1]
    )
    module: str | None = Field(
        description="The module, or the job's module; null for an executor.", examples=["lenet"]
    )
    executor: str | None = Field(
        description="The executor that has the module or runs the job; null if there is none yet.",
        examples=["cpu(0)"],
    )
    attempt: int | None = Field(description="Attempt of the job, 0 before the first.")
    status: JobStatus | None = Field(
        description="Status of the job after the event.", examples=["running"]
    )
    data: dict[str, Any] = Field(description="Details, which depend on the type.")
    created_at: Timestamp


def job_view(job: Job, outlook: JobOutlook | None = None) -> JobView:
    """Return the view of a job, with its outlook if there is one."""
    plain = to_plain(job)
    fields = {name: plain[name] for name in JobView.model_fields if name in plain}
    view = JobView(**fields, etag=job.etag, versions=_versions(job))
    if outlook is not None:
        view.queue_position, view.eta_seconds = outlook.queue_position, outlook.eta_seconds
    return view


def _versions(job: Job) -> JobVersionsView | None:
    epochs = epochs_of(job)
    if epochs is None:
        return None
    return JobVersionsView(first=epochs.begin + 1, last=epochs.end)


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


def histograms_view(found: Histograms) -> HistogramsView:
    """Return the view of histograms."""
    return HistogramsView(
        arrays=[NamedArrayView(of=of, name=name) for of, name in found.arrays],
        array=NamedArrayView(of=found.array.of, name=found.array.name),
        total=found.total,
        epochs=found.epochs.tolist(),
        batches=found.batches.tolist(),
        lows=found.lows.tolist(),
        highs=found.highs.tolist(),
        nonfinite=found.nonfinite.tolist(),
        counts=found.counts.tolist(),
    )


def event_view(row: EventRow) -> EventView:
    """Return the view of an event."""
    plain = to_plain(row)
    return EventView(**plain | {"data": with_timestamps(plain["data"])})
