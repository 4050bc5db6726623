"""Calls on jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.client.bodies import Json
from app.client.follow import Ended, Events
from app.client.methods import iterator, method
from app.client.request import AsJson, Pages, Request, at, nothing
from app.client.results import EventView, HistogramsView, InputPreviewsView, JobView, SeriesView

__all__ = ["JobCalls"]


class JobCalls:
    """Calls on jobs."""

    @method
    def fit(
        self, /, name: str, *, limits: Mapping[str, float] | None = None, **params: Any
    ) -> Request[JobView]:
        """Submit a training job.

        Args:
            name: of the module.
            limits: ``priority``, ``max_retries``, ``deadline_seconds``, ``timeout_seconds``.
            params: what to train, as in the body of the request.
        """
        return _submitted(name, "fit", limits, params)

    @method
    def preview_fit(self, /, name: str, **source: Any) -> Request[InputPreviewsView]:
        """Return what a fit would make of the first example of a dataset, without training.

        Args:
            name: of the module.
            source: ``dataset``, ``inputs`` and ``classes``, as in the parameters of ``fit``.
        """
        path = at("modules", name, "fit", "preview")
        return Request("POST", path, AsJson(InputPreviewsView), body=Json(source))

    @method
    def score(
        self, /, name: str, *, limits: Mapping[str, float] | None = None, **params: Any
    ) -> Request[JobView]:
        """Submit a scoring job; limits are those of ``fit``."""
        return _submitted(name, "score", limits, params)

    @method
    def predict_dataset(
        self, /, name: str, *, limits: Mapping[str, float] | None = None, **params: Any
    ) -> Request[JobView]:
        """Submit a job that predicts a dataset into another; limits are those of ``fit``."""
        return _submitted(name, "predict_dataset", limits, params)

    @method
    def jobs(self, /, **filters: Any) -> Pages[JobView]:
        """Return all jobs, or those that match the filters.

        Args:
            filters: ``module``, ``status``, ``kind`` (one or a list), ``created_after``,
                ``created_before``.
        """
        return Pages(at("jobs"), JobView, filters)

    @method
    def job(self, job_id: int) -> Request[JobView]:
        """Return a job."""
        return Request("GET", at("jobs", job_id), AsJson(JobView))

    @method
    def pause(self, job_id: int) -> Request[JobView]:
        """Pause a job; if it is running, it saves a checkpoint first."""
        return _told(job_id, "pause")

    @method
    def resume(self, job_id: int) -> Request[JobView]:
        """Queue a paused job again."""
        return _told(job_id, "resume")

    @method
    def cancel(self, job_id: int) -> Request[JobView]:
        """Cancel a job."""
        return _told(job_id, "cancel")

    @method
    def retry(self, job_id: int) -> Request[JobView]:
        """Queue a failed or cancelled job again."""
        return _told(job_id, "retry")

    @method
    def delete_job(self, job_id: int) -> Request[None]:
        """Delete a finished job with its events and metrics; its checkpoints are kept."""
        return Request("DELETE", at("jobs", job_id), nothing)

    @method
    def job_metrics(self, job_id: int) -> Pages[EventView]:
        """Return the metrics of every epoch so far, as events."""
        return Pages(at("jobs", job_id, "metrics"), EventView)

    @method
    def job_series(
        self, job_id: int, series: str = "loss", points: int = 2000
    ) -> Request[SeriesView]:
        """Return one metric over all batches of a fit, downsampled to at most ``points`` points."""
        where = {"series": series, "points": points}
        return Request("GET", at("jobs", job_id, "metrics"), AsJson(SeriesView), query=where)

    @method
    def job_histograms(
        self, job_id: int, array: str | None = None, of: str = "parameter", points: int = 200
    ) -> Request[HistogramsView]:
        """Return the histograms of a parameter, or of its gradient, from a fit with a monitor.

        Args:
            job_id: of the fit.
            array: name of the parameter; None for the first.
            of: ``parameter`` or ``gradient``.
            points: maximum number of histograms.
        """
        path, where = at("jobs", job_id, "histograms"), {"of": of, "points": points, "array": array}
        return Request("GET", path, AsJson(HistogramsView), query=where)

    @iterator
    def job_events(self, job_id: int, after: int = 0) -> Events:
        """Yield a job's events with ids after ``after``, until the job ends.

        A broken stream is resumed where it broke, even after a restart of the server.

        Raises:
            httpx.TransportError: the server did not come back within half a minute.
        """
        return Events.of_job(job_id, after)

    @method
    def wait(self, job_id: int, *, timeout_seconds: float | None = None) -> Ended:
        """Wait until a job has ended, and return it.

        Raises:
            TimeoutError: it has not ended after ``timeout_seconds``; the job continues.
        """
        return Ended(job_id, timeout_seconds)


def _submitted(
    name: str, kind: str, limits: Mapping[str, float] | None, params: Mapping[str, Any]
) -> Request[JobView]:
    path, body = at("modules", name, kind), Json(params)
    return Request("POST", path, AsJson(JobView), body=body, query=limits, has_key=True)


def _told(job_id: int, what: str) -> Request[JobView]:
    return Request("POST", at("jobs", job_id, what), AsJson(JobView))
