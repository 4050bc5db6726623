"""Jobs: submitted, stopped, followed; and the executors they run on."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from app.client.connection import Connection

__all__ = ["JobCalls"]

_STREAM_TIMEOUT = httpx.Timeout(10.0, read=60.0)
_RECONNECT_SECONDS = 30.0
_RETRY_SECONDS = 0.1


class JobCalls(Connection):
    """Calls on jobs, their events, and executors."""

    def fit(
        self, name: str, *, limits: Mapping[str, float] | None = None, **params: Any
    ) -> dict[str, Any]:
        """Submit a training job.

        Args:
            name: of the module.
            limits: ``priority``, ``max_retries``, ``deadline_seconds``, ``timeout_seconds``.
            params: what to train, as in the body of the request.
        """
        return self._json("POST", f"/v1/modules/{name}/fit", json=params, params=limits)

    def score(
        self, name: str, *, limits: Mapping[str, float] | None = None, **params: Any
    ) -> dict[str, Any]:
        """Submit a scoring job; limits as of ``fit``."""
        return self._json("POST", f"/v1/modules/{name}/score", json=params, params=limits)

    def predict_dataset(
        self, name: str, *, limits: Mapping[str, float] | None = None, **params: Any
    ) -> dict[str, Any]:
        """Submit a job that predicts a dataset into another; limits as of ``fit``."""
        path = f"/v1/modules/{name}/predict_dataset"
        return self._json("POST", path, json=params, params=limits)

    def jobs(self, **filters: Any) -> list[dict[str, Any]]:
        """Return all jobs, or some.

        Args:
            filters: ``module``, ``status``, ``kind`` (one, or a list of several),
                ``created_after``, ``created_before``.
        """
        return self._items("/v1/jobs", **filters)

    def job(self, job_id: int) -> dict[str, Any]:
        """Return a job."""
        return self._json("GET", f"/v1/jobs/{job_id}")

    def pause(self, job_id: int) -> dict[str, Any]:
        """Pause a job; one that runs saves a checkpoint first."""
        return self._json("POST", f"/v1/jobs/{job_id}/pause")

    def resume(self, job_id: int) -> dict[str, Any]:
        """Queue a paused job again."""
        return self._json("POST", f"/v1/jobs/{job_id}/resume")

    def cancel(self, job_id: int) -> dict[str, Any]:
        """Cancel a job."""
        return self._json("POST", f"/v1/jobs/{job_id}/cancel")

    def retry(self, job_id: int) -> dict[str, Any]:
        """Queue a failed or cancelled job again."""
        return self._json("POST", f"/v1/jobs/{job_id}/retry")

    def delete_job(self, job_id: int) -> None:
        """Delete a finished job with its events and metrics; its checkpoints stay."""
        self.request("DELETE", f"/v1/jobs/{job_id}")

    def job_metrics(self, job_id: int) -> list[dict[str, Any]]:
        """Return the metrics of every epoch so far, as events."""
        return self._items(f"/v1/jobs/{job_id}/metrics")

    def job_series(self, job_id: int, series: str = "loss", points: int = 2000) -> dict[str, Any]:
        """Return a metric over all batches of a fit, down-sampled to so many points."""
        where = {"series": series, "points": points}
        return self._json("GET", f"/v1/jobs/{job_id}/metrics", params=where)

    def job_histograms(
        self, job_id: int, array: str | None = None, of: str = "parameter", points: int = 200
    ) -> dict[str, Any]:
        """Return histograms that a fit with a monitor took of a parameter, or of its gradient.

        Args:
            array: name of the parameter; None takes the first.
            of: ``parameter`` or ``gradient``.
            points: how many at most.
        """
        where = {"of": of, "points": points} | ({} if array is None else {"array": array})
        return self._json("GET", f"/v1/jobs/{job_id}/histograms", params=where)

    def job_events(self, job_id: int, after: int = 0) -> Iterator[dict[str, Any]]:
        """Yield a job's events after an id until it ends.

        A stream that breaks is taken up again where it broke, also by a server that was restarted.

        Raises:
            httpx.TransportError: the server did not come back within half a minute.
        """
        return self._follow(f"/v1/jobs/{job_id}/events", after)

    def events(self, after: int | None = 0, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yield the events of jobs, modules and executors, or some, while they are asked for.

        Args:
            after: only those after this id; None for only those that happen from now on.
            filters: ``job``, ``module``, ``executor``, ``type`` (one, or a list of several).

        Raises:
            httpx.TransportError: the server did not come back within half a minute.
        """
        return self._follow("/v1/events", after, filters)

    def wait(self, job_id: int) -> dict[str, Any]:
        """Return a job once it has ended."""
        for _ in self.job_events(job_id):
            pass
        return self.job(job_id)

    def executors(self, **filters: Any) -> list[dict[str, Any]]:
        """Return what is known of each executor: its state, device and memory.

        Args:
            filters: ``name``, ``state`` (one, or a list of several).
        """
        return self._items("/v1/executors", **filters)

    def error_codes(self) -> list[dict[str, Any]]:
        """Return all error codes, with what to do about each."""
        return self._items("/v1/errors")

    def error_code(self, code: str) -> dict[str, Any]:
        """Return what an error code means and what to do about it."""
        return self._json("GET", f"/v1/errors/{code}")

    def _follow(
        self, path: str, after: int | None, filters: Mapping[str, Any] | None = None
    ) -> Iterator[dict[str, Any]]:
        while True:
            try:
                for event in self._stream_events(path, after, filters or {}):
                    after = event["id"]
                    yield event
                return
            except httpx.TransportError:
                if not self._comes_back():
                    raise

    def _stream_events(
        self, path: str, after: int | None, filters: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        headers = {"Accept": "text/event-stream"}
        where = dict(filters)
        if after is None:
            where["after"] = "latest"
        else:
            headers["Last-Event-ID"] = str(after)
        options = {"headers": headers, "params": where, "timeout": _STREAM_TIMEOUT}
        with self._stream(path, **options) as response:
            for line in response.iter_lines():
                if line.startswith("data:"):
                    yield json.loads(line.removeprefix("data:"))

    def _comes_back(self) -> bool:
        deadline = time.monotonic() + _RECONNECT_SECONDS
        while not self.is_ready():
            if time.monotonic() > deadline:
                return False
            time.sleep(_RETRY_SECONDS)
        return True
