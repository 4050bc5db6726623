"""A module whose graph has a loop, from its symbol to its predictions."""

from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np

import core as mx


def recurrent() -> Any:
    """Symbol JSON of a classifier of sequences (batch, 5 steps, 3 features)."""

    def step(x: Any, state: Any) -> Any:
        out = mx.sym.FullyConnected(mx.sym.concat(x, state, dim=1), num_hidden=4, name="cell")
        out = mx.sym.tanh(out)
        return out, out

    data = mx.sym.var("data")
    start = mx.sym.tile(mx.sym.sum(data, axis=(1, 2)).reshape((-1, 1)), (1, 4)) * 0
    _, state = mx.sym.contrib.foreach(step, mx.sym.SwapAxis(data, dim1=0, dim2=1), start)
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(state, num_hidden=2), name="softmax")
    return json.loads(net.tojson())


async def _post(api: httpx.AsyncClient, path: str, body: Any, status: int = 200) -> Any:
    answer = await api.post(f"/v1/modules{path}", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_a_loop_is_trained_and_predicts(api: httpx.AsyncClient) -> None:
    await _post(api, "", {"name": "net", "symbol": recurrent()}, 201)
    shapes = {
        "data_shapes": [{"name": "data", "shape": [8, 5, 3]}],
        "label_shapes": [{"name": "softmax_label", "shape": [8]}],
    }
    await _post(api, "/net/bind", shapes)
    await _post(api, "/net/params/init", {"initializer": "xavier", "seed": 1})
    await _post(api, "/net/optimizer", {"name": "adam", "options": {"learning_rate": 0.05}})
    data = np.random.RandomState(0).normal(size=(8, 5, 3))
    label = (data.sum(axis=(1, 2)) > 0).astype(int)
    inputs = {"data": data.tolist()}
    batch = {"inputs": {**inputs, "softmax_label": label.tolist()}}
    for _ in range(60):
        await _post(api, "/net/forward_backward", batch)
        await _post(api, "/net/update", {})
    answer = await _post(api, "/net/predict", {"inputs": inputs})
    output = np.array(answer["outputs"]["softmax_output"]["data"])
    assert (output.argmax(axis=1) == label).all()


async def test_a_file_with_a_bad_loop_is_refused(api: httpx.AsyncClient) -> None:
    symbol = recurrent()
    (loop,) = (node for node in symbol["nodes"] if node["op"] == "_foreach")
    loop["subgraphs"][0]["nodes"][-1]["op"] = "tanhh"
    answer = await _post(api, "", {"name": "net", "symbol": symbol}, 422)
    assert "'tanhh'" in answer["detail"]
    assert "did you mean 'tanh'" in answer["detail"]
