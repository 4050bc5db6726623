"""Event streams: where they start, filters, and reconnecting."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from app.client import Client
from app.client.local_server import ServerProcess
from served.network import NETWORK, examples_npz, fit_body


@pytest.fixture
async def two(ready: httpx.AsyncClient) -> httpx.AsyncClient:
    """The client, with modules ``net`` and ``other``, and a finished fit of each."""
    await ready.put("/v1/datasets/examples", content=examples_npz())
    await ready.post("/v1/modules", json={"name": "other", "symbol": NETWORK})
    for module in ("net", "other"):
        await fit(ready, module)
    return ready


async def fit(api: httpx.AsyncClient, module: str) -> int:
    """Train a module to the end and return the job's id."""
    job = (await api.post(f"/v1/modules/{module}/fit", json=fit_body())).json()["id"]
    async with api.stream("GET", f"/v1/jobs/{job}/events") as stream:
        async for _ in stream.aiter_lines():
            pass
    return int(job)


async def frames(api: httpx.AsyncClient, last: int, **query: Any) -> list[dict[str, Any]]:
    """Follow /v1/events and return everything up to the event with id ``last``."""
    found = []
    async with api.stream("GET", "/v1/events", params=query) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data:"):
                found.append(json.loads(line.removeprefix("data:")))
                if found[-1]["id"] >= last:
                    return found
    raise AssertionError("the stream ended")


async def ended(api: httpx.AsyncClient, module: str) -> dict[str, Any]:
    """Return the last event of a module's only job."""
    (job,) = (await api.get("/v1/jobs", params={"module": module})).json()["items"]
    events = []
    async with api.stream("GET", f"/v1/jobs/{job['id']}/events") as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data:"):
                events.append(json.loads(line.removeprefix("data:")))
    return dict(events[-1])


async def test_a_stream_begins_with_its_retry_time(two: httpx.AsyncClient) -> None:
    (job,) = (await two.get("/v1/jobs?module=net")).json()["items"]
    text = (await two.get(f"/v1/jobs/{job['id']}/events")).text
    assert text.startswith("retry: 1000\nid: 0\n\n")


async def test_events_of_a_module(two: httpx.AsyncClient) -> None:
    last = await ended(two, "other")
    found = await frames(two, last["id"], module="other")
    assert {one["module"] for one in found} == {"other"}
    of_job = [one for one in found if one["job_id"] is not None]
    assert {one["job_id"] for one in of_job} == {last["job_id"]}
    assert of_job[0]["type"] == "submitted"


async def test_events_of_kinds_and_jobs(two: httpx.AsyncClient) -> None:
    last = await ended(two, "net")
    found = await frames(two, last["id"], job=last["job_id"], type="submitted,succeeded")
    assert [one["type"] for one in found] == ["submitted", "succeeded"]
    everything = await frames(two, last["id"], job=[last["job_id"], last["job_id"] + 1])
    assert len(everything) > 2


async def test_a_filtered_stream_resumes_after_the_last_event(two: httpx.AsyncClient) -> None:
    last = await ended(two, "net")
    everything = await frames(two, last["id"], module="net")
    seen = everything[len(everything) // 2]["id"]
    rest = await frames(two, last["id"], module="net", after=seen)
    assert everything == [one for one in everything if one["id"] <= seen] + rest


async def test_a_stream_may_start_at_the_present(
    server: ServerProcess, two: httpx.AsyncClient
) -> None:
    before = await ended(two, "other")
    async with two.stream("GET", "/v1/events?after=latest") as stream:
        lines = stream.aiter_lines()
        assert await anext(lines) == "retry: 1000"
        with Client(server.url) as client:
            job = client.fit("net", **fit_body())
            client.wait(job["id"])
        ids = []
        async for line in lines:
            if line.startswith("data:"):
                event = json.loads(line.removeprefix("data:"))
                ids.append(event["id"])
                assert (event["job_id"] or job["id"], event["module"]) == (job["id"], "net")
                if event["status"] == "succeeded":
                    break
    assert min(ids) > before["id"]


@pytest.mark.parametrize(
    ("query", "field", "expected"),
    [
        ("after=newest", "after", "latest"),
        ("after=-1", "after", "latest"),
        ("type=done", "type", "'submitted'"),
        ("job=first", "job", "a whole number"),
    ],
)
async def test_wrong_values_are_refused(
    api: httpx.AsyncClient, query: str, field: str, expected: str
) -> None:
    refused = await api.get(f"/v1/events?{query}")
    assert refused.status_code == 422
    (fault,) = refused.json()["errors"]
    assert fault["field"].startswith(field)
    assert expected in fault["expected"]
