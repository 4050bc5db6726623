"""Every valid body with one thing wrong: refused with 4xx or accepted, never 5xx."""

import asyncio
import copy
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from served.network import BIND, FEATURES, NETWORK, examples_npz, fit_body

ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    2**31,
    2**63,
    1e308,
    "",
    "x",
    "\0",
    "../x",
    [],
    [[]],
    [-1],
    ["x"],
    {},
    {"x": 1},
)

EXAMPLE = [[0.5] * FEATURES]
TRAIN = {"inputs": {"data": EXAMPLE * 4, "softmax_label": [0, 1, 2, 0]}, "sequence": None}
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "/v1/modules": ("POST", {"name": "other", "symbol": NETWORK, "data_names": ["data"]}),
    "/v1/modules/net/bind": ("POST", {**BIND, "grad_req": {"fc_weight": "add"}}),
    "/v1/modules/net/reshape": ("POST", BIND),
    "/v1/modules/net/buckets": ("POST", {"key": "20", **BIND}),
    "/v1/modules/net/params/init": (
        "POST",
        {"initializer": "xavier", "options": {"magnitude": 2, "rnd_type": "gaussian"}, "seed": 1},
    ),
    "/v1/modules/net/params": (
        "PUT",
        {"inputs": {"fc_weight": [[0.5] * FEATURES] * 3, "fc_bias": {"data": [1, 2, 3]}}},
    ),
    "/v1/modules/net/optimizer": (
        "POST",
        {
            "name": "sgd",
            "options": {
                "learning_rate": 0.1,
                "momentum": 0.9,
                "wd": 0.1,
                "clip_gradient": 1.0,
                "lr_scheduler": {"name": "factor", "step": 2, "factor": 0.9},
            },
            "kvstore": "local",
        },
    ),
    "/v1/modules/net/predict": (
        "POST",
        {"inputs": {"data": {"shape": [1, 5], "dtype": "float32", "data": [0, 0, 0, 0, 0]}}},
    ),
    "/v1/modules/net/forward": ("POST", {**TRAIN, "is_train": False, "generation": 1}),
    "/v1/modules/net/forward_backward": ("POST", {**TRAIN, "with_outputs": True}),
    "/v1/modules/net/backward": ("POST", {"inputs": {"softmax_output": [[1, 2, 3]] * 4}}),
    "/v1/modules/net/update": ("POST", {"inputs": {}, "generation": 1}),
    "/v1/modules/net/states": ("PUT", {"inputs": {"state": [1]}}),
    "/v1/modules/net/checkpoints": ("POST", {"epoch": 3, "optimizer_states": True}),
    "/v1/modules/net/load": ("POST", {"epoch": 3, "optimizer_states": True}),
    "/v1/modules/net/fit": (
        "POST",
        fit_body(
            inputs={"data": {"array": "data", "shape": [5], "scale": 1.0, "padding": 0.0}},
            validation={"dataset": "examples", "inputs": {"data": {"array": "data"}}},
            seed=1,
            last_batch="discard",
            metrics=["accuracy"],
            initializer={"initializer": "one"},
            checkpoint={"epochs": 1, "batches": 3, "seconds": 1.0, "keep": 1},
            callbacks={"speedometer": {"frequent": 2}},
        ),
    ),
    "/v1/modules/net/score": ("POST", {"dataset": "examples", "batch_size": 4, "num_batch": 2}),
    "/v1/modules/net/predict_dataset": (
        "POST",
        {"dataset": "examples", "batch_size": 4, "output": "answers"},
    ),
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every member and element of a body."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


def spoilt(body: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield copies of the body that differ in one place, with its path."""
    for path in places(body):
        for odd in (*ODD, ...):
            other = copy.deepcopy(body)
            holder = other
            for key in path[:-1]:
                holder = holder[key]
            if odd is ...:
                del holder[path[-1]]
            else:
                holder[path[-1]] = odd
            yield path, other


@pytest.mark.parametrize("path", BODIES)
async def test_one_wrong_value_never_gives_a_5xx(ready: httpx.AsyncClient, path: str) -> None:
    await ready.put("/v1/datasets/examples", content=examples_npz())
    verb, body = BODIES[path]
    for place, other in spoilt(body):
        response = await ready.request(verb, path, json=other)
        assert response.status_code < 500, (place, other, response.text)
        if response.status_code >= 400:
            problem = response.json()
            assert problem["status"] == response.status_code
            assert problem["detail"], problem
        elif path == "/v1/modules":
            await ready.delete(f"/v1/modules/{response.json()['name']}")
        elif response.status_code == 202:
            job = await end(ready, response.json())
            assert job["error"] is None or job["error"]["code"] != "internal", (place, other, job)
    assert (await ready.get("/v1/modules/net")).status_code == 200


async def end(api: httpx.AsyncClient, job: dict[str, Any]) -> dict[str, Any]:
    """Return a job once it has ended; a long one is cancelled in its first epoch."""
    path = f"/v1/jobs/{job['id']}"
    while job["status"] in ("queued", "running"):
        if job["progress"].get("batch") and job["requested"] is None:
            await api.post(f"{path}/cancel")
        await asyncio.sleep(0.005)
        job = (await api.get(path)).json()
    return job
