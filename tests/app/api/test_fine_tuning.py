"""Modules made from another module's checkpoint: copied, cut, or given a new last layer."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from app.cli.demo.tour import LENET, MNIST, SCALE
from app.main import create_app
from app.services.services import Services
from app.settings import Settings

HEAD = {"name": "fc_new", "num_hidden": 5}
SGD = {"name": "sgd", "options": {"learning_rate": 0.05, "momentum": 0.9}}
FLAT = "flatten0_output"


async def ask(
    api: httpx.AsyncClient, method: str, path: str, status: int = 200, **body: Any
) -> Any:
    response = await api.request(method, path, **body)
    assert response.status_code == status, response.text
    return response.json()


async def create(api: httpx.AsyncClient, status: int = 201, **changes: Any) -> Any:
    body = {"name": "five", "from": {"module": "lenet"}, "output": FLAT, "head": HEAD, **changes}
    return await ask(api, "POST", "/v1/modules", status, json=body)


async def params(api: httpx.AsyncClient, name: str) -> dict[str, np.ndarray]:
    headers = {"Accept": "application/x-npz"}
    response = await api.get(f"/v1/modules/{name}/params", headers=headers)
    assert response.status_code == 200, response.text
    return dict(np.load(io.BytesIO(response.content)))


async def fit(api: httpx.AsyncClient, name: str, dataset: str, epochs: int) -> dict[str, Any]:
    """Train, wait, and return the finished job."""
    body = {
        "dataset": dataset,
        "epochs": epochs,
        "batch_size": 64,
        "seed": 3,
        "initializer": {"initializer": "xavier"},
        "optimizer": SGD,
        "checkpoint": {"epochs": 0},
    }
    job = await ask(api, "POST", f"/v1/modules/{name}/fit", 202, json=body)
    async with api.stream("GET", f"/v1/jobs/{job['id']}/events") as events:
        async for _ in events.aiter_lines():
            pass
    done: dict[str, Any] = await ask(api, "GET", f"/v1/jobs/{job['id']}")
    assert done["status"] == "succeeded", done["error"]
    return done


def digits(classes: range, count: int) -> bytes:
    """Return the digits of some classes, with labels counted from 0."""
    with np.load(MNIST) as archive:
        images, labels = archive["train_images"], archive["train_labels"].astype(np.int64)
    chosen = np.flatnonzero(np.isin(labels, classes))[:count]
    data = images[chosen].reshape(-1, 1, 28, 28).astype(np.float32) * np.float32(SCALE)
    stream = io.BytesIO()
    np.savez(stream, data=data, softmax_label=labels[chosen] - classes.start)
    return stream.getvalue()


@pytest.fixture
async def tuned(api: httpx.AsyncClient) -> httpx.AsyncClient:
    """The client, with LeNet trained for an epoch and saved as checkpoint 1."""
    for name, content in (("all", digits(range(10), 1500)), ("high", digits(range(5, 10), 1000))):
        await ask(api, "PUT", f"/v1/datasets/{name}?kind=npz", content=content)
    body = {"name": "lenet", "symbol": LENET.read_text()}
    await ask(api, "POST", "/v1/modules", 201, json=body)
    await fit(api, "lenet", "all", 1)
    return api


async def test_a_new_head_is_trained_on_frozen_features(tuned: httpx.AsyncClient) -> None:
    before = await params(tuned, "lenet")
    created = await create(tuned, fixed_param_patterns=["c1", "c2"])
    assert created["origin"] == {
        "module": "lenet",
        "epoch": "1",
        "output": FLAT,
        "head": {**HEAD, "no_bias": False},
    }
    assert (created["stage"], created["label_names"]) == ("created", ["softmax_label"])
    done = await fit(tuned, "five", "high", 3)
    assert done["result"]["train"]["accuracy"] > 0.9
    after = await params(tuned, "five")
    kept = sorted(set(after) - {"fc_new_weight", "fc_new_bias"})
    assert kept == sorted(name for name in before if name.startswith("c"))
    for name in kept:
        np.testing.assert_array_equal(after[name], before[name])
    assert after["fc_new_bias"].shape == (5,)
    shape = {"inputs": {"data": np.zeros((2, 1, 28, 28)).tolist()}}
    answer = await ask(tuned, "POST", "/v1/modules/five/predict", json=shape)
    assert answer["outputs"]["softmax_output"]["shape"] == [2, 5]


async def test_init_keeps_copied_parameters_and_draws_the_rest(
    tuned: httpx.AsyncClient,
) -> None:
    before = await params(tuned, "lenet")
    await create(tuned)
    assert (await tuned.delete("/v1/modules/lenet")).status_code == 204
    shapes = {
        "data_shapes": [{"name": "data", "shape": [8, 1, 28, 28]}],
        "label_shapes": [{"name": "softmax_label", "shape": [8]}],
    }
    await ask(tuned, "POST", "/v1/modules/five/bind", json=shapes)
    init = {"initializer": "one", "seed": 4}
    done = await ask(tuned, "POST", "/v1/modules/five/params/init", json=init)
    assert (done["stage"], done["params"]) == ("initialized", "init")
    after = await params(tuned, "five")
    for name in ("c1_weight", "c2_bias"):
        np.testing.assert_array_equal(after[name], before[name])
    np.testing.assert_array_equal(
        after["fc_new_weight"], np.ones((5, after["fc_new_weight"].shape[1]))
    )


async def test_a_module_is_cut_to_its_features(tuned: httpx.AsyncClient) -> None:
    created = await create(tuned, head=None)
    assert (created["params"], created["checkpoint"]) == ("checkpoint", "1")
    assert created["label_names"] == []
    shapes = {"data_shapes": [{"name": "data", "shape": [2, 1, 28, 28]}], "for_training": False}
    bound = await ask(tuned, "POST", "/v1/modules/five/bind", json=shapes)
    assert bound["stage"] == "initialized"
    inputs = {"inputs": {"data": np.ones((2, 1, 28, 28)).tolist()}}
    answer = await ask(tuned, "POST", "/v1/modules/five/predict", json=inputs)
    assert list(answer["outputs"]) == [FLAT]


async def test_a_copy_outlives_the_original(tuned: httpx.AsyncClient) -> None:
    before = await params(tuned, "lenet")
    created = await create(
        tuned, output=None, head=None, **{"from": {"module": "lenet", "epoch": 1}}
    )
    assert created["checkpoint"] == "1"
    assert (await tuned.delete("/v1/modules/lenet")).status_code == 204
    shapes = {"data_shapes": [{"name": "data", "shape": [2, 1, 28, 28]}], "for_training": False}
    await ask(tuned, "POST", "/v1/modules/five/bind", json=shapes)
    after = await params(tuned, "five")
    assert sorted(after) == sorted(before)
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value)


async def test_invalid_requests_are_refused(tuned: httpx.AsyncClient) -> None:
    for changes, field in (
        ({"output": "flaten0_output"}, "output"),
        ({"output": None}, "output"),
        ({"output": "c1_weight"}, "output"),
        ({"head": {"num_hidden": 0}}, "head.num_hidden"),
        ({"head": {"num_hidden": 3, "name": "c1"}}, "head.name"),
        ({"head": {"num_hidden": 3, "name": "a b"}}, "head.name"),
        ({"symbol": {}}, "symbol"),
        ({"data_names": ["x"]}, "data_names"),
        ({"kind": "bucketing"}, "kind"),
        ({"from": None}, "from"),
        ({"from": {"module": "lenet", "epoch": "x"}}, "from.epoch"),
        ({"fixed_param_patterns": ["fc1"]}, "fixed_param_patterns"),
    ):
        refused = await create(tuned, 422, **changes)
        assert refused["errors"][0]["field"] == field, refused
        if changes == {"output": "flaten0_output"}:
            assert FLAT in refused["detail"]
    assert (await create(tuned, 404, **{"from": {"module": "other"}}))["code"] == "not_found"
    missing = {"from": {"module": "lenet", "epoch": 7}}
    assert (await create(tuned, 404, **missing))["code"] == "not_found"
    assert [one["name"] for one in (await ask(tuned, "GET", "/v1/modules"))["items"]] == ["lenet"]
    await create(tuned)
    without = {"name": "third", "from": {"module": "five"}}
    refused = await create(tuned, 409, **without)
    assert "checkpoints" in refused["detail"]


@asynccontextmanager
async def server(settings: Settings) -> AsyncIterator[tuple[httpx.AsyncClient, Services]]:
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as api:
            yield api, app.state.services


async def test_derived_modules_are_restored_after_a_restart(tmp_path: Path) -> None:
    """The server restarts on the same data: kept parameters and a seed give the same values."""
    settings = Settings(data_dir=tmp_path, executor_form="in_process", log_level="error")
    shapes = {
        "data_shapes": [{"name": "data", "shape": [4, 1, 28, 28]}],
        "label_shapes": [{"name": "softmax_label", "shape": [4]}],
    }
    async with server(settings) as (api, _):
        body = {"name": "lenet", "symbol": LENET.read_text()}
        await ask(api, "POST", "/v1/modules", 201, json=body)
        await ask(api, "POST", "/v1/modules/lenet/bind", json=shapes)
        init = {"initializer": "xavier", "seed": 8}
        await ask(api, "POST", "/v1/modules/lenet/params/init", json=init)
        await ask(api, "POST", "/v1/modules/lenet/checkpoints", 201, json={"epoch": 0})
        await create(api)
        await ask(api, "POST", "/v1/modules/five/bind", json=shapes)
        await ask(api, "POST", "/v1/modules/five/params/init", json={**init, "seed": 9})
        first = await params(api, "five")
        assert (await api.delete("/v1/modules/lenet")).status_code == 204
    async with server(settings) as (api, _):
        second = await params(api, "five")
    assert sorted(first) == sorted(second)
    for name, value in first.items():
        np.testing.assert_array_equal(second[name], value)
