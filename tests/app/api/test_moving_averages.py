"""Moving averages change in training passes: the module reports that they are not saved."""

from __future__ import annotations

import json
from typing import Any

import httpx

from served.perceptron import data_shape, label_shape, perceptron

NET = "/v1/modules/averaged"
BATCH = {"data": [[1.0] * 6, [0.0] * 6], "softmax_label": [0, 1]}


async def post(api: httpx.AsyncClient, path: str, body: Any) -> Any:
    answer = await api.post(f"{NET}{path}", json=body)
    assert answer.is_success, answer.text
    return answer.json()


async def is_durable(api: httpx.AsyncClient) -> bool:
    return bool((await api.get(NET)).json()["durable"])


async def test_a_backward_pass_after_a_save_changes_them_again(api: httpx.AsyncClient) -> None:
    symbol = json.loads(perceptron(batch_norm=True).tojson())
    created = await api.post("/v1/modules", json={"name": "averaged", "symbol": symbol})
    assert created.status_code == 201, created.text
    shapes = {"data_shapes": [data_shape(2)], "label_shapes": [label_shape(2)]}
    plain = {
        part: [{"name": one.name, "shape": one.shape} for one in descs]
        for part, descs in shapes.items()
    }
    await post(api, "/bind", plain)
    await post(api, "/params/init", {"seed": 1})
    assert await is_durable(api)
    await post(api, "/forward", {"inputs": BATCH, "is_train": True})
    assert not await is_durable(api)
    await post(api, "/checkpoints", {"epoch": 1})
    assert await is_durable(api)
    await post(api, "/backward", {})
    assert not await is_durable(api)
