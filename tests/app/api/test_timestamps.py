"""Timestamps in answers and events: ISO 8601 in UTC, to the millisecond."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from app.api.timestamps import timestamp, with_timestamps
from app.api.v1.job_views import event_view
from app.domain.events import EventRow
from app.domain.job import JobEvent, JobStatus

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def test_timestamps_are_in_utc() -> None:
    assert timestamp(1795377120.1234) == "2026-11-22T19:52:00.123Z"
    assert timestamp(0) == "1970-01-01T00:00:00.000Z"


def test_events_of_older_versions_are_returned_in_the_same_format() -> None:
    row = EventRow(
        id=1,
        job_id=2,
        module="net",
        attempt=1,
        type=JobEvent.DEFERRED,
        status=JobStatus.QUEUED,
        data={"not_before": 1795377120.5, "retry": 1},
        created_at=1795377120.0,
    )
    view = event_view(row)
    assert view.created_at == "2026-11-22T19:52:00.000Z"
    assert view.data == {"not_before": "2026-11-22T19:52:00.500Z", "retry": 1}


def test_values_that_are_not_timestamps_are_unchanged() -> None:
    data = {"epoch": 3, "seconds": 1.5, "finished_at": None, "at": 2.0}
    assert with_timestamps(data) == data


def moments(answer: Any) -> list[str]:
    """Return the values of all members of an answer that are named like timestamps."""
    if isinstance(answer, list):
        return [one for item in answer for one in moments(item)]
    if not isinstance(answer, dict):
        return []
    own = [
        value
        for name, value in answer.items()
        if value is not None and (name.endswith("_at") or name == "not_before")
    ]
    return own + [one for value in answer.values() for one in moments(value)]


async def test_answers_and_events_use_the_same_format(ready: httpx.AsyncClient) -> None:
    await ready.post("/v1/modules/net/checkpoints", json={"epoch": 1})
    for path in ("", "/net", "/net/checkpoints", "/net/checkpoints/1"):
        found = moments((await ready.get(f"/v1/modules{path}")).json())
        assert found, path
        assert all(MOMENT.fullmatch(one) for one in found), found


async def test_the_stage_is_in_lower_case(ready: httpx.AsyncClient) -> None:
    assert (await ready.get("/v1/modules/net")).json()["stage"] == "ready"


@pytest.mark.parametrize("pointer", ["ModuleView", "JobView", "EventView", "DatasetView"])
async def test_the_document_declares_the_format(api: httpx.AsyncClient, pointer: str) -> None:
    document = json.loads((await api.get("/openapi.json")).text)
    field = document["components"]["schemas"][pointer]["properties"]["created_at"]
    assert (field["type"], field["format"]) == ("string", "date-time")
