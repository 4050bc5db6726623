"""List filters with one value or several."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from served.network import BIND, NETWORK, examples_npz, fit_body


async def names(api: httpx.AsyncClient, path: str, **query: Any) -> list[Any]:
    """Return the names, or other identifiers, of a list's items."""
    answer = await api.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return [
        one.get("name") or one.get("tag") or (one["kind"], one["status"])
        for one in answer.json()["items"]
    ]


@pytest.fixture
async def many(ready: httpx.AsyncClient) -> httpx.AsyncClient:
    """The client, with modules at several stages, jobs, datasets and checkpoints."""
    for name in ("other", "Other"):
        await ready.post("/v1/modules", json={"name": name, "symbol": NETWORK})
    await ready.post("/v1/modules/other/bind", json=BIND)
    await ready.put("/v1/datasets/examples", content=examples_npz())
    await ready.put("/v1/datasets/words?kind=text", content=b"one\ntwo\n")
    job = (await ready.post("/v1/modules/net/fit", json=fit_body())).json()["id"]
    async with ready.stream("GET", f"/v1/jobs/{job}/events") as events:
        async for _ in events.aiter_bytes():
            pass
    await ready.post("/v1/modules/net/checkpoints", json={"epoch": 9})
    return ready


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ["Other", "net", "other"]),
        ({"stage": "bound"}, ["other"]),
        ({"stage": "bound,ready"}, ["net", "other"]),
        ({"stage": ["bound", "created"]}, ["Other", "other"]),
        ({"stage": "initialized"}, []),
        ({"state": "ready"}, ["Other", "net", "other"]),
        ({"state": "failed,params_lost"}, []),
        ({"kind": "module"}, ["Other", "net", "other"]),
        ({"kind": "bucketing"}, []),
        ({"executor": "cpu(0)"}, ["Other", "net", "other"]),
        ({"prefix": "o"}, ["other"]),
        ({"prefix": "o%"}, []),
        ({"prefix": "n", "stage": "bound"}, []),
    ],
)
async def test_modules(many: httpx.AsyncClient, query: dict[str, Any], expected: list[str]) -> None:
    assert await names(many, "/v1/modules", **query) == expected


async def test_pagination_of_filtered_lists(many: httpx.AsyncClient) -> None:
    first = (await many.get("/v1/modules?stage=created,bound&limit=1")).json()
    assert [one["name"] for one in first["items"]] == ["Other"]
    cursor = first["next_cursor"]
    rest = (await many.get(f"/v1/modules?stage=created,bound&limit=1&cursor={cursor}")).json()
    assert [one["name"] for one in rest["items"]] == ["other"]
    assert rest["next_cursor"] is None


async def test_jobs(many: httpx.AsyncClient) -> None:
    done = [("fit", "succeeded")]
    assert await names(many, "/v1/jobs", status="succeeded,failed") == done
    assert await names(many, "/v1/jobs", status=["queued", "running"]) == []
    assert await names(many, "/v1/jobs", kind="fit,score", module="net,other") == done
    assert await names(many, "/v1/jobs", kind="score") == []
    assert await names(many, "/v1/jobs", module="other") == []
    created = (await many.get("/v1/jobs")).json()["items"][0]["created_at"]
    assert await names(many, "/v1/jobs", created_after="2020-01-01T00:00:00Z") == done
    assert await names(many, "/v1/jobs", created_before="2020-01-01T00:00:00+02:00") == []
    assert await names(many, "/v1/jobs", created_before=created) == []


async def test_datasets(many: httpx.AsyncClient) -> None:
    assert await names(many, "/v1/datasets", kind="text,csv") == ["words"]
    assert await names(many, "/v1/datasets", prefix="ex") == ["examples"]
    assert await names(many, "/v1/datasets", created_before="2020-01-01T00:00:00Z") == []


async def test_checkpoints(many: httpx.AsyncClient) -> None:
    path = "/v1/modules/net/checkpoints"
    job = (await many.get("/v1/jobs")).json()["items"][0]["id"]
    everything = await names(many, path)
    assert everything[0] == "9"
    assert await names(many, path, job=job) == everything[1:]
    assert await names(many, path, job=f"{job},{job + 1}") == everything[1:]
    assert await names(many, path, job=job + 1) == []
    assert await names(many, path, created_before="2020-01-01T00:00:00Z") == []


async def test_executors(many: httpx.AsyncClient) -> None:
    assert await names(many, "/v1/executors", state="ready,starting") == ["cpu(0)"]
    assert await names(many, "/v1/executors", state="stopped") == []
    assert await names(many, "/v1/executors", name="cpu(0)") == ["cpu(0)"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/modules?stage=READY", "'created', 'bound', 'initialized' or 'ready'"),
        ("/v1/modules?stage=ready,", "'created', 'bound', 'initialized' or 'ready'"),
        ("/v1/modules?state=broken", "'ready', 'params_lost' or 'failed'"),
        ("/v1/modules?kind=modul", "'bucketing'"),
        ("/v1/modules?executor=cpu(7)", "one of cpu(0)"),
        ("/v1/jobs?status=queued,done", "'queued', 'running', 'paused'"),
        ("/v1/jobs?kind=train", "'fit', 'score' or 'predict'"),
        ("/v1/jobs?created_after=yesterday", "datetime"),
        ("/v1/jobs?created_after=0", "datetime"),
        ("/v1/jobs?created_after=2026-11-22", "datetime"),
        ("/v1/jobs?created_after=2026-11-22T00:00:00", "timezone"),
        ("/v1/datasets?kind=zip", "'npz', 'npy'"),
        ("/v1/modules/net/checkpoints?job=first", "a whole number"),
        ("/v1/executors?state=dead", "'stopped', 'starting'"),
        ("/v1/executors?name=gpu(0)", "one of cpu(0)"),
    ],
)
async def test_invalid_values_are_answered_with_the_valid_ones(
    created: httpx.AsyncClient, path: str, expected: str
) -> None:
    refused = await created.get(path)
    assert refused.status_code == 422
    (fault,) = refused.json()["errors"]
    assert expected in fault["expected"]
    assert fault["field"] == path.partition("?")[2].partition("=")[0]


@pytest.mark.parametrize(
    ("path", "field", "expected"),
    [
        ("/v1/modules?limit=ten", "limit", "a whole number"),
        ("/v1/modules/-net", "module", "1 to 128 of A-Z a-z 0-9 . _ - beginning with"),
        ("/v1/errors/Not-found", "code", "lower-case letters and _, as in not_found"),
        ("/v1/events?after=now", "after", "latest or the id of an event"),
        ("/v1/modules/net/buckets/plan", "k", "a value; the parameter is required"),
        ("/v1/modules/net/monitor?pattern=", "pattern", "at least 1 character"),
    ],
)
async def test_invalid_parameters_are_refused_in_plain_words(
    api: httpx.AsyncClient, path: str, field: str, expected: str
) -> None:
    answer = await api.get(path)
    assert answer.status_code == 422, answer.text
    (fault,) = answer.json()["errors"]
    assert fault["field"] == field
    assert fault["expected"].startswith(expected)
