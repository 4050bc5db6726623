"""Jobs: submitted, followed, paused, resumed, cancelled and retried."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Depends, Query, Request, Response

from app.api.bodies import read_json
from app.api.conditional import IF_MATCH
from app.api.dependencies import (
    Cursor,
    IdempotencyKey,
    JobId,
    Limit,
    ModuleName,
    ServicesOf,
    tell_replay,
)
from app.api.filters import (
    ALL,
    CreatedAfter,
    CreatedBefore,
    JobKinds,
    JobStatuses,
    ModuleNames,
    seconds_of,
)
from app.api.openapi import json_body, problems
from app.api.v1.fact_views import InputPreviewsView, InputPreviewView
from app.api.v1.job_views import (
    EventView,
    HistogramsView,
    JobView,
    SeriesView,
    event_view,
    histograms_view,
    job_view,
    series_view,
)
from app.api.v1.views import PageView
from app.domain.codec import to_plain
from app.domain.job import Job, JobKind
from app.domain.job_params import (
    DatasetSource,
    FitParams,
    PredictParams,
    ScoreParams,
    parse_source,
)
from app.domain.named_arrays import ArrayKind, NamedArray
from app.services.access.preconditions import is_expected
from app.services.jobs.input_previews import preview_inputs
from app.services.jobs.jobs import JobFilter
from app.services.jobs.submissions import JobLimits, read_submission
from app.services.jobs.submissions import Submission as JobSubmission
from app.services.services import Services

__all__ = ["router"]

router = APIRouter(tags=["jobs"])

_log = structlog.get_logger(__name__)

_FIT = {
    "dataset": "mnist",
    "inputs": {
        "data": {"array": "train_images", "shape": [1, 28, 28], "scale": 0.00392156862745098},
        "softmax_label": {"array": "train_labels"},
    },
    "epochs": 12,
    "batch_size": 64,
    "optimizer": {"name": "sgd", "options": {"learning_rate": 0.05, "momentum": 0.9}},
}
_SCORE = {key: _FIT[key] for key in ("dataset", "inputs", "batch_size")}
_COLUMNS = {
    "dataset": "iris",
    "inputs": {"data": {"all_but": ["species"]}, "softmax_label": "species"},
}
_CHANGES_A_JOB: dict[str, Any] = {
    "responses": problems(404, 409, 422),
    "dependencies": IF_MATCH,
}
_SUBMIT = problems(400, 404, 409, 413, 415, 422)

Priority = Annotated[int, Query(ge=-1000, le=1000, description="A smaller number runs earlier.")]
MaxRetries = Annotated[
    int,
    Query(
        ge=0,
        le=100,
        description="Number of automatic retries, after 1, 2, 4, ... seconds, if it "
        "fails with a temporary error: storage_full, unavailable, "
        "in_use, executor_gone.",
    ),
]
DeadlineSeconds = Annotated[
    float | None,
    Query(
        gt=0,
        le=3e8,
        description="It fails (deadline_exceeded) unless it ends this soon after submission.",
    ),
]
TimeoutSeconds = Annotated[
    float | None,
    Query(gt=0, le=3e8, description="It fails (deadline_exceeded) when it has run for this time."),
]


@dataclass(frozen=True, slots=True)
class Submission:
    """A request that submits a job: the module, what the query and headers say, and the body."""

    module: str
    request: Request
    response: Response
    services: Services
    limits: JobLimits
    idempotency_key: str | None

    async def as_job(self, kind: JobKind) -> JobView:
        """Queue the job, and answer with its location."""
        params = await read_json(self.request, {"op": "job", "kind": kind.value})
        asked = read_submission(self.module, kind, params, self.limits, self.idempotency_key)
        await self.services.commands.check_job(asked)
        job = await self._submitted(asked)
        self.response.headers["Location"] = f"/v1/jobs/{job.id}"
        tell_replay(self.response, asked.replay)
        return job_view(job)

    async def _submitted(self, asked: JobSubmission) -> Job:
        if not is_expected():
            return await self.services.jobs.submit_among_others(asked)
        # The module must not change between the check of ``If-Match`` and the queuing.
        async with self.services.access.lock(self.module):
            return await self.services.jobs.submit_among_others(asked)


async def _submission(
    module: ModuleName,
    request: Request,
    response: Response,
    services: ServicesOf,
    priority: Priority = 0,
    max_retries: MaxRetries = 0,
    deadline_seconds: DeadlineSeconds = None,
    timeout_seconds: TimeoutSeconds = None,
    idempotency_key: IdempotencyKey = None,
) -> Submission:
    limits = JobLimits(
        priority=priority,
        max_retries=max_retries,
        deadline_seconds=deadline_seconds,
        timeout_seconds=timeout_seconds,
    )
    return Submission(module, request, response, services, limits, idempotency_key)


Submitted = Annotated[Submission, Depends(_submission)]


@router.post(
    "/v1/modules/{module}/fit",
    status_code=202,
    summary="Train",
    openapi_extra=json_body(FitParams, _FIT),
    responses=_SUBMIT,
    dependencies=IF_MATCH,
)
async def fit_module(submission: Submitted) -> JobView:
    """Queue a training over a dataset; binds and initializes the module if necessary."""
    return await submission.as_job(JobKind.FIT)


@router.post(
    "/v1/modules/{module}/fit/preview",
    summary="Preview the inputs of a training",
    openapi_extra=json_body(DatasetSource, _COLUMNS),
    responses=problems(400, 404, 409, 413, 415, 422),
)
async def preview_fit(
    module: ModuleName, request: Request, services: ServicesOf
) -> InputPreviewsView:
    """Return what a fit would make of the first example of a dataset, without training.

    What the fit would refuse about the dataset is refused here, too.
    """
    source = parse_source(await read_json(request, {"op": "source"}))
    record = await services.access.record(module)
    found = await asyncio.to_thread(preview_inputs, services.datasets, record, source)
    return InputPreviewsView(
        inputs={name: InputPreviewView(**to_plain(one)) for name, one in found.items()}
    )


@router.post(
    "/v1/modules/{module}/score",
    status_code=202,
    summary="Evaluate",
    openapi_extra=json_body(ScoreParams, _SCORE),
    responses=_SUBMIT,
    dependencies=IF_MATCH,
)
async def score_module(submission: Submitted) -> JobView:
    """Queue an evaluation of metrics over a dataset."""
    return await submission.as_job(JobKind.SCORE)


@router.post(
    "/v1/modules/{module}/predict_dataset",
    status_code=202,
    summary="Predict a dataset",
    openapi_extra=json_body(PredictParams, {**_SCORE, "output": "answers"}),
    responses=_SUBMIT,
    dependencies=IF_MATCH,
)
async def predict_dataset(submission: Submitted) -> JobView:
    """Queue a prediction over a dataset; the outputs become a dataset."""
    return await submission.as_job(JobKind.PREDICT)


@router.get("/v1/jobs", summary="List jobs", responses=problems(422))
def list_jobs(
    services: ServicesOf,
    module: ModuleNames = ALL,
    status: JobStatuses = ALL,
    kind: JobKinds = ALL,
    created_after: CreatedAfter = None,
    created_before: CreatedBefore = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> PageView[JobView]:
    """Return a page of jobs, newest first."""
    wanted = JobFilter(
        modules=module,
        statuses=status,
        kinds=kind,
        created_after=seconds_of(created_after),
        created_before=seconds_of(created_before),
    )
    page = services.jobs.list_jobs(wanted, cursor, limit)
    outlooks = services.jobs.outlook(page.items)
    views = [job_view(job, outlook) for job, outlook in zip(page.items, outlooks, strict=True)]
    return PageView(items=views, next_cursor=page.next_cursor)


@router.get("/v1/jobs/{job}", summary="Describe a job", responses=problems(404, 422))
def get_job(job: JobId, response: Response, services: ServicesOf) -> JobView:
    """Return a job with its latest progress, its position in the queue and when it is expected to
    end.
    """
    found = services.jobs.get(job)
    response.headers["ETag"] = found.etag
    return job_view(found, *services.jobs.outlook([found]))


@router.delete("/v1/jobs/{job}", status_code=204, summary="Delete a finished job", **_CHANGES_A_JOB)
def delete_job(job: JobId, services: ServicesOf) -> None:
    """Remove a job that has ended, with its events and metrics; its checkpoints stay."""
    services.jobs.delete(job)


@router.post("/v1/jobs/{job}/cancel", summary="Cancel", **_CHANGES_A_JOB)
def cancel_job(job: JobId, services: ServicesOf) -> JobView:
    """Cancel a job; a running one stops after the current batch."""
    return job_view(services.jobs.cancel(job))


@router.post("/v1/jobs/{job}/pause", summary="Pause", **_CHANGES_A_JOB)
def pause_job(job: JobId, services: ServicesOf) -> JobView:
    """Pause a job; a running one saves a checkpoint first."""
    return job_view(services.jobs.pause(job))


@router.post("/v1/jobs/{job}/resume", summary="Resume", **_CHANGES_A_JOB)
def resume_job(job: JobId, services: ServicesOf) -> JobView:
    """Queue a paused job again, from its newest checkpoint; withdraw a pending pause."""
    return job_view(services.jobs.resume(job))


@router.post("/v1/jobs/{job}/retry", summary="Retry", **_CHANGES_A_JOB)
def retry_job(job: JobId, services: ServicesOf) -> JobView:
    """Queue a failed or cancelled job again; it continues from its newest checkpoint."""
    return job_view(services.jobs.retry(job))


SeriesName = Annotated[
    str | None,
    Query(
        max_length=256,
        description="A metric, `loss` or `learning_rate`: its values over all batches of a fit.",
    ),
]
Points = Annotated[
    int,
    Query(
        ge=2, le=100_000, description="Maximum number of batches in a series; extremes are kept."
    ),
]
ArrayName = Annotated[
    str | None, Query(max_length=256, description="Name of a parameter.", examples=["fc1_weight"])
]
ArrayOf = Annotated[
    ArrayKind,
    Query(description="Whether histograms of the parameter or of its gradient are meant."),
]
HistogramPoints = Annotated[
    int, Query(ge=2, le=1000, description="Maximum number of histograms, chosen evenly among all.")
]


@router.get("/v1/jobs/{job}/metrics", summary="Metrics", responses=problems(404, 422))
def get_job_metrics(
    job: JobId,
    services: ServicesOf,
    cursor: Cursor = None,
    limit: Limit = 200,
    series: SeriesName = None,
    points: Points = 2000,
) -> PageView[EventView] | SeriesView:
    """Return a page of the metrics of all epochs, of training and validation, oldest first.

    With `series`, one metric over all batches: the loss of each, the learning rate of each, or a
    metric's running value within the epoch.
    """
    if series is not None:
        return series_view(series, services.jobs.series(job, series, points))
    page = services.jobs.metrics(job, cursor, limit)
    return PageView(items=[event_view(row) for row in page.items], next_cursor=page.next_cursor)


@router.get(
    "/v1/jobs/{job}/histograms",
    summary="Histograms of weights and gradients",
    responses=problems(404, 422),
)
def get_job_histograms(
    job: JobId,
    services: ServicesOf,
    array: ArrayName = None,
    of: ArrayOf = "parameter",
    points: HistogramPoints = 200,
) -> HistogramsView:
    """Return the histograms that a fit with a `monitor` took, of one parameter or its gradient.

    Without `array` those of the first are returned; `arrays` lists them all. Weights are those
    before a batch's update, gradients those of the batch.
    """
    chosen = None if array is None else NamedArray(of, array)
    return histograms_view(services.jobs.histograms(job, chosen, points))
