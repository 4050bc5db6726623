"""Retries, deadlines, queue positions, and deleting or expiring jobs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.main import create_app
from app.settings import Settings
from served.network import NETWORK, examples_npz, fit_body

FIT = "/v1/modules/net/fit"
NEVER_ENDING = fit_body(epochs=100_000, checkpoint={"epochs": 0, "batches": 50})


@pytest.fixture
async def net(created: httpx.AsyncClient) -> httpx.AsyncClient:
    """The client, with module ``net`` and dataset ``examples``."""
    await created.put("/v1/datasets/examples", content=examples_npz())
    return created


async def submit(api: httpx.AsyncClient, body: dict[str, Any], **query: Any) -> dict[str, Any]:
    answer = await api.post(FIT, json=body, params=query)
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


async def job_when(
    api: httpx.AsyncClient, job_id: int, holds: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while not holds(job := (await api.get(f"/v1/jobs/{job_id}")).json()):
        assert time.monotonic() < deadline, job
        await asyncio.sleep(0.02)
    return dict(job)


def is_over(job: dict[str, Any]) -> bool:
    return job["status"] in {"succeeded", "failed", "cancelled"}


async def test_limits_are_reported_and_validated(net: httpx.AsyncClient) -> None:
    said = {"max_retries": 3, "deadline_seconds": 60, "timeout_seconds": 30.5, "priority": 2}
    job = await submit(net, fit_body(), **said)
    assert (job["max_retries"], job["timeout_seconds"]) == (3, 30.5)
    deadline, created = (
        datetime.fromisoformat(job[f"{name}_at"]) for name in ("deadline", "created")
    )
    assert (deadline - created).total_seconds() == pytest.approx(60, abs=1)
    for name, bad in (("max_retries", -1), ("deadline_seconds", 0), ("timeout_seconds", "nan")):
        refused = await net.post(FIT, json=fit_body(), params={name: bad})
        assert refused.status_code == 422, name
        assert name in refused.text
    await job_when(net, job["id"], is_over)


async def test_a_fit_that_times_out_saves_fails_and_can_be_resumed(
    net: httpx.AsyncClient,
) -> None:
    job = await submit(net, NEVER_ENDING, timeout_seconds=1.0)
    failed = await job_when(net, job["id"], is_over)
    assert failed["status"] == "failed"
    assert failed["error"]["code"] == "deadline_exceeded"
    assert failed["error"]["field"] == "timeout_seconds"
    checkpoints = (await net.get("/v1/modules/net/checkpoints")).json()["items"]
    assert checkpoints[0]["job_id"] == job["id"], "it has saved a checkpoint"
    await net.post(f"/v1/jobs/{job['id']}/retry")
    seen = failed["progress"]["samples"]
    await job_when(net, job["id"], lambda job: job["progress"]["samples"] > seen)
    await net.post(f"/v1/jobs/{job['id']}/cancel")
    await job_when(net, job["id"], is_over)
    log = (await net.get(f"/v1/jobs/{job['id']}/events")).text
    assert f"going on from checkpoint {checkpoints[0]['tag']}" in log


async def test_a_job_still_queued_at_its_deadline_fails(net: httpx.AsyncClient) -> None:
    running = await submit(net, NEVER_ENDING)
    waiting = await submit(net, fit_body(), deadline_seconds=0.5)
    late = await job_when(net, waiting["id"], is_over)
    assert (late["status"], late["error"]["code"]) == ("failed", "deadline_exceeded")
    assert (late["error"]["field"], late["attempt"]) == ("deadline_seconds", 0)
    await net.post(f"/v1/jobs/{running['id']}/cancel")
    await job_when(net, running["id"], is_over)


async def test_queued_jobs_report_their_position_and_running_ones_their_end(
    net: httpx.AsyncClient,
) -> None:
    done = await submit(net, fit_body())
    await job_when(net, done["id"], is_over)
    running = await submit(net, NEVER_ENDING)
    second, first = [await submit(net, fit_body(), priority=place) for place in (2, 1)]
    view = await job_when(net, running["id"], lambda job: job["eta_seconds"] is not None)
    assert view["queue_position"] is None
    await job_when(net, running["id"], lambda job: bool(job["progress"]))
    listed = (await net.get("/v1/jobs")).json()["items"]
    places = {job["id"]: job["queue_position"] for job in listed}
    assert places == {done["id"]: None, running["id"]: None, first["id"]: 1, second["id"]: 2}
    queued = (await net.get(f"/v1/jobs/{second['id']}")).json()
    assert queued["queue_position"] == 2
    assert queued["eta_seconds"] >= 0
    for job in (first, second, running):
        await net.post(f"/v1/jobs/{job['id']}/cancel")
    await job_when(net, running["id"], is_over)


async def test_only_finished_jobs_can_be_deleted_and_leave_nothing_behind(
    net: httpx.AsyncClient, tmp_path: Path
) -> None:
    headers = {"Idempotency-Key": "one"}
    job = (await net.post(FIT, json=fit_body(), headers=headers)).json()
    path = f"/v1/jobs/{job['id']}"
    running = await submit(net, NEVER_ENDING)
    refused = await net.delete(f"/v1/jobs/{running['id']}")
    assert (refused.status_code, refused.json()["code"]) == (409, "in_use")
    assert "cancel it first" in refused.json()["detail"]
    await job_when(net, job["id"], is_over)
    assert (await net.delete(path)).status_code == 204
    for suffix in ("", "/events", "/metrics"):
        assert (await net.get(path + suffix)).status_code == 404
    assert (await net.delete(path)).status_code == 404
    left = (await net.get("/v1/jobs")).json()["items"]
    assert [one["id"] for one in left] == [running["id"]]
    anew = await net.post(FIT, json=fit_body(), headers=headers)
    again = anew.json()
    assert again["id"] > running["id"], "the idempotency key is free again, the id is not"
    repeated = await net.post(FIT, json=fit_body(), headers=headers)
    assert (repeated.status_code, repeated.json()["id"]) == (202, again["id"])
    assert "idempotency-replayed" not in anew.headers
    assert repeated.headers["idempotency-replayed"] == "true"
    for one in (running, again):
        await net.post(f"/v1/jobs/{one['id']}/cancel")
    await job_when(net, running["id"], is_over)


async def test_history_is_limited_by_the_settings(tmp_path: Path) -> None:
    settings = Settings(
        data_dir=tmp_path, executor_form="in_process", log_level="error", keep_jobs=2
    )
    ids = []
    for _ in range(2):  # excess jobs are removed at startup, too
        app = create_app(settings)
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as api:
                if not ids:
                    await api.post("/v1/modules", json={"name": "net", "symbol": NETWORK})
                    await api.put("/v1/datasets/examples", content=examples_npz())
                    ids = [(await submit(api, fit_body()))["id"] for _ in range(4)]
                    await job_when(api, ids[-1], is_over)
                    continue
                deadline = time.monotonic() + 20
                while len(found := (await api.get("/v1/jobs")).json()["items"]) > 2:
                    assert time.monotonic() < deadline
                    await asyncio.sleep(0.02)
                assert [job["id"] for job in found] == ids[:-3:-1]


async def test_a_paused_fit_records_every_batch_once(
    net: httpx.AsyncClient,
) -> None:
    checkpoint = {"epochs": 0, "batches": 3}
    job = await submit(net, fit_body(epochs=80, checkpoint=checkpoint, metrics=["accuracy"]))
    path = f"/v1/jobs/{job['id']}"
    await job_when(net, job["id"], lambda job: bool(job["progress"]))
    await net.post(f"{path}/pause")
    if (await job_when(net, job["id"], lambda job: job["requested"] is None))["status"] == "paused":
        await net.post(f"{path}/resume")
    done = await job_when(net, job["id"], is_over)
    assert done["status"] == "succeeded"
    loss = (await net.get(f"{path}/metrics?series=loss&points=100000")).json()
    assert loss["total"] == 80 * 5
    places = list(zip(loss["epochs"], loss["batches"], strict=True))
    assert places == [(epoch, batch) for epoch in range(80) for batch in range(5)]
    assert all(value > 0 for value in loss["values"])
    few = (await net.get(f"{path}/metrics?series=accuracy&points=50")).json()
    assert len(few["values"]) <= 50
    unknown = await net.get(f"{path}/metrics?series=nothing")
    assert (unknown.status_code, "accuracy, loss" in unknown.text) == (404, True)
    assert (await net.delete(path)).status_code == 204
