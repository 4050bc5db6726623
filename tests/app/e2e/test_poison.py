"""A module whose restore crashes the process: it is quarantined, and the others are served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import app.main as main
from app.main import create_app
from app.settings import Settings
from served.network import BATCH, BIND, FEATURES, NETWORK, examples_npz, fit_body

PREDICT = {"inputs": {"data": [[0.5] * FEATURES] * BATCH}}
INFER = {
    "inputs": [
        {
            "name": "data",
            "shape": [BATCH, FEATURES],
            "datatype": "FP32",
            "data": [0.5] * FEATURES * BATCH,
        }
    ]
}


@pytest.fixture(autouse=True)
def poisonous(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executors run a host that can crash."""
    monkeypatch.setattr(
        main, "_EXECUTOR", (*main._EXECUTOR, "--host", "served.poison_host:PoisonHost")
    )
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("MODSERVE_THREADS", "1")


@asynccontextmanager
async def server(data_dir: Path, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A server in this process whose executor is its own process."""
    app = create_app(Settings(data_dir=data_dir, threads=1, log_level="error", **options))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield client


async def make(api: httpx.AsyncClient, *names: str) -> None:
    for name in names:
        path = f"/v1/modules/{name}"
        for call, body in (
            ("/v1/modules", {"name": name, "symbol": NETWORK}),
            (f"{path}/bind", BIND),
            (f"{path}/params/init", {"initializer": "xavier", "seed": 1}),
        ):
            answer = await api.post(call, json=body)
            assert answer.is_success, answer.text


async def predict(api: httpx.AsyncClient, name: str) -> tuple[int, dict[str, Any]]:
    answer = await api.post(f"/v1/modules/{name}/predict", json=PREDICT)
    return answer.status_code, answer.json()


async def until_ready(api: httpx.AsyncClient) -> None:
    async with asyncio.timeout(60):
        while (await api.get("/readyz")).status_code != 200:
            await asyncio.sleep(0.02)


async def test_after_two_crashes_in_its_restore_a_module_is_quarantined(tmp_path: Path) -> None:
    async with server(tmp_path) as api:
        await make(api, "poison", "good")
    for _ in range(2):
        async with server(tmp_path) as api:  # no module is restored before it is needed
            assert (await predict(api, "good"))[0] == 200
            status, problem = await predict(api, "poison")
            assert (status, problem["code"]) == (503, "executor_gone")
            await until_ready(api)
            assert (await predict(api, "good"))[0] == 200
    async with server(tmp_path) as api:
        module = (await api.get("/v1/modules/poison")).json()
        assert module["state"] == "failed"
        assert "2 times" in module["reason"]
        before = await executor(api)
        status, problem = await predict(api, "poison")
        assert (status, problem["code"]) == (409, "module_failed")
        assert "POST /v1/modules/poison/restore" in problem["detail"]
        assert problem["reason"] == module["reason"]
        assert (await predict(api, "good"))[0] == 200
        ready = await api.get("/readyz")
        assert ready.status_code == 200
        assert "module poison" in ready.json()["warnings"][0]
        assert (await executor(api))["pid"] == before["pid"]
        assert (await api.post("/v1/modules/poison/restore")).status_code == 503
        await until_ready(api)
        assert (await executor(api))["pid"] != before["pid"]
        assert (await api.delete("/v1/modules/poison")).status_code == 204
        assert (await api.get("/readyz")).json()["warnings"] == []


async def test_only_the_call_that_crashed_the_executor_is_told_so(tmp_path: Path) -> None:
    async with server(tmp_path) as api:
        await make(api, "hungry", "good")
        answers = await asyncio.gather(*(predict(api, "hungry") for _ in range(3)))
        assert {status for status, _ in answers} == {503}
        blamed = [one["detail"] for _, one in answers if "while it ran" in one["detail"]]
        assert blamed, "the requests that were being computed"
        assert all("predict of module 'hungry'" in detail for detail in blamed)
        await until_ready(api)
        assert (await predict(api, "good"))[0] == 200
        assert "while it ran predict of module 'hungry'" in (await executor(api))["last_end"]
        assert (await api.get("/v1/modules/hungry")).json()["state"] == "ready"


async def test_a_module_whose_calls_crash_is_quarantined_until_restored(
    tmp_path: Path,
) -> None:
    async with server(tmp_path) as api:
        await make(api, "faulty", "good")
        for _ in range(2):
            assert (await predict(api, "faulty"))[1]["code"] == "executor_gone"
            await until_ready(api)
        before = await executor(api)
        status, problem = await predict(api, "faulty")
        assert (status, problem["code"]) == (409, "module_failed")
        assert "2 times within 60 s, the last: predict" in problem["detail"]
        assert "POST /v1/modules/faulty/restore" in problem["detail"]
        assert (await predict(api, "good"))[0] == 200
        assert (await executor(api))["pid"] == before["pid"]
        assert (await api.post("/v1/modules/faulty/restore")).status_code == 200
        assert (await predict(api, "faulty"))[0] == 503


async def test_a_call_that_holds_the_executor_is_ended_and_its_module_refused(
    tmp_path: Path,
) -> None:
    async with server(tmp_path, max_call_seconds=0.5) as api:
        await make(api, "slow", "good")
        for path, body in (
            ("/v1/modules/slow/predict", PREDICT),
            ("/v2/models/slow/infer", INFER),
        ):
            answer = await api.post(path, json=body)
            assert answer.status_code == 504, answer.text
            assert path == "/v2/models/slow/infer" or answer.json()["code"] == "call_too_long"
            assert "MODSERVE_MAX_CALL_SECONDS" in answer.text
            await until_ready(api)
            assert (await predict(api, "good"))[0] == 200
        before = await executor(api)
        assert "took" in before["last_end"]
        status, problem = await predict(api, "slow")
        assert (status, problem["code"]) == (409, "module_failed")
        assert "MODSERVE_MAX_CALL_SECONDS 2 times" in problem["detail"]
        assert (await executor(api))["pid"] == before["pid"]
        assert (await api.post("/v1/modules/slow/restore")).status_code == 200


async def test_a_crash_caused_by_another_call_costs_a_job_no_attempt(
    tmp_path: Path,
) -> None:
    async with server(tmp_path) as api:
        await make(api, "hungry", "good")
        dataset = await api.put("/v1/datasets/examples?kind=npz", content=examples_npz())
        assert dataset.is_success, dataset.text
        # Without checkpoints, since one would reset the count of lost attempts.
        body = fit_body(epochs=10_000, checkpoint={"epochs": 10_000})
        answer = await api.post("/v1/modules/good/fit", json=body)
        assert answer.is_success, answer.text
        path = f"/v1/jobs/{answer.json()['id']}"
        await until_trained(api, path, attempt=1)
        assert (await predict(api, "hungry"))[0] == 503
        await until_trained(api, path, attempt=2)
        assert (await api.get(path)).json()["lost"] == 0
        assert (await api.post(f"{path}/cancel")).is_success


async def until_trained(api: httpx.AsyncClient, path: str, attempt: int) -> None:
    """Wait until a job that has reported progress is running in a given attempt."""
    async with asyncio.timeout(60):
        while True:
            job = (await api.get(path)).json()
            assert job["status"] != "failed", job["error"]
            is_running = job["status"] == "running" and job["progress"] is not None
            if is_running and job["attempt"] == attempt:
                return
            await asyncio.sleep(0.05)


async def test_the_job_that_crashed_the_executor_is_told_so(tmp_path: Path) -> None:
    async with server(tmp_path) as api:
        await make(api, "hungry")
        dataset = await api.put("/v1/datasets/examples?kind=npz", content=examples_npz())
        assert dataset.is_success, dataset.text
        job = (await api.post("/v1/modules/hungry/fit", json=fit_body())).json()["id"]
        async with asyncio.timeout(120):
            while (found := (await api.get(f"/v1/jobs/{job}")).json())["status"] != "failed":
                await asyncio.sleep(0.1)
        assert "while it ran this job" in found["error"]["message"]


async def executor(api: httpx.AsyncClient) -> dict[str, Any]:
    (found,) = (await api.get("/v1/executors")).json()["items"]
    return dict(found)
