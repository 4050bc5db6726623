"""Buckets made from one symbol that works for any length: created, bound, trained, queried."""

from __future__ import annotations

import io
import json
from typing import Any

import httpx
import numpy as np
import pytest

import core as mx
from app.api.v1.requests import ModuleBody
from app.errors.tree import Invalid

LENGTHS, FEATURES, CLASSES, BATCH = (3, 5, 8), 4, 3, 4
OPEN: dict[str, Any] = {
    "data_shapes": [
        {"name": "data", "shape": [BATCH, None, FEATURES], "layout": "NTC"},
        {"name": "lengths", "shape": [BATCH]},
    ],
    "label_shapes": [{"name": "softmax_label", "shape": [BATCH]}],
}


def symbol() -> dict[str, Any]:
    """Return a classifier of the mean over the first steps of a sequence."""
    data, lengths = mx.sym.Variable("data"), mx.sym.Variable("lengths")
    steps = mx.sym.SwapAxis(data, dim1=0, dim2=1)
    masked = mx.sym.SequenceMask(steps, lengths, use_sequence_length=True)
    mean = mx.sym.broadcast_div(mx.sym.sum(masked, axis=0), mx.sym.Reshape(lengths, shape=(-1, 1)))
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mean, num_hidden=CLASSES), name="softmax")
    parsed: dict[str, Any] = json.loads(net.tojson())
    return parsed


def body(**changes: Any) -> dict[str, Any]:
    given = {"name": "net", "symbol": symbol(), "buckets": LENGTHS}
    return {**given, "data_names": ["data", "lengths"], **changes}


def sequences(count: int = 40) -> bytes:
    """Return sequences of 2 to 8 steps, concatenated; each class has its own feature."""
    random = np.random.RandomState(4)
    labels, lengths = random.randint(0, CLASSES, count), random.randint(2, 9, count)
    frames = random.normal(size=(lengths.sum(), FEATURES)).astype(np.float32)
    frames[np.arange(len(frames)), np.repeat(labels, lengths)] += 2
    stream = io.BytesIO()
    np.savez(stream, frames=frames, lengths=lengths, labels=labels)
    return stream.getvalue()


@pytest.fixture
async def created(api: httpx.AsyncClient) -> httpx.AsyncClient:
    """The client, with a module of three buckets."""
    response = await api.post("/v1/modules", json=body())
    assert response.status_code == 201, response.text
    answer = response.json()
    assert (answer["kind"], answer["default_bucket_key"]) == ("bucketing", "8")
    assert sorted(answer["bucket_keys"]) == ["3", "5", "8"]
    return api


async def test_bind_creates_a_bucket_for_each_length(created: httpx.AsyncClient) -> None:
    bound = await created.post("/v1/modules/net/bind", json=OPEN)
    assert bound.status_code == 200, bound.text
    await created.post("/v1/modules/net/params/init", json={"initializer": "xavier", "seed": 1})
    live = (await created.get("/v1/modules/net")).json()["live"]
    shapes = {key: one["data_shapes"][0]["shape"] for key, one in live["buckets"].items()}
    assert shapes == {str(length): [BATCH, length, FEATURES] for length in LENGTHS}
    for steps, bucket in ((2, "3"), (3, "3"), (4, "5"), (8, "8")):
        x = np.random.RandomState(steps).rand(2, steps, FEATURES)
        inputs = {"data": x.tolist(), "lengths": [steps, steps]}
        answer = await created.post("/v1/modules/net/predict", json={"inputs": inputs})
        assert answer.json()["bucket"] == bucket
        whole = {"inputs": inputs, "bucket": 8}
        in_largest = await created.post("/v1/modules/net/predict", json=whole)
        np.testing.assert_allclose(
            answer.json()["outputs"]["softmax_output"]["data"],
            in_largest.json()["outputs"]["softmax_output"]["data"],
            rtol=1e-5,
        )
    inputs = {"data": np.zeros((1, 9, FEATURES)).tolist(), "lengths": [9]}
    refused = await created.post("/v1/modules/net/predict", json={"inputs": inputs})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "data")


async def test_a_bucket_may_have_its_own_shapes(created: httpx.AsyncClient) -> None:
    own = json.loads(json.dumps(OPEN).replace("null", "3").replace(f"[{BATCH}", "[2"))
    bound = await created.post("/v1/modules/net/bind", json={**OPEN, "buckets": {"3": own}})
    assert bound.status_code == 200, bound.text
    buckets = bound.json()["bind"]["buckets"]
    assert buckets["3"]["data_shapes"][0]["shape"] == [2, 3, FEATURES]
    assert buckets["5"]["data_shapes"][0]["shape"] == [BATCH, 5, FEATURES]


async def test_a_fit_puts_each_example_into_its_bucket(created: httpx.AsyncClient) -> None:
    await created.put("/v1/datasets/sequences?kind=npz", content=sequences())
    await created.post("/v1/modules/net/bind", json=OPEN)
    inputs = {
        "data": {"array": "frames", "lengths": "lengths"},
        "lengths": {"array": "lengths"},
        "softmax_label": {"array": "labels"},
    }
    fit = {
        "dataset": "sequences",
        "inputs": inputs,
        "epochs": 15,
        "batch_size": BATCH,
        "optimizer": {"name": "sgd", "options": {"learning_rate": 0.5}},
        "checkpoint": {"epochs": 0},
    }
    job = (await created.post("/v1/modules/net/fit", json=fit)).json()
    async with created.stream("GET", f"/v1/jobs/{job['id']}/events") as events:
        async for _ in events.aiter_lines():
            pass
    done = (await created.get(f"/v1/jobs/{job['id']}")).json()
    assert done["status"] == "succeeded", done["error"]
    assert done["result"]["train"]["accuracy"] > 0.9
    buckets = (await created.get("/v1/modules/net/buckets")).json()["items"]
    assert sorted(buckets) == ["3", "5", "8"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"buckets": [0]}, "buckets[0]"),
        ({"buckets": [True]}, "buckets[0]"),
        ({"buckets": list(range(1, 400))}, "buckets"),
        ({"default_bucket_key": 4}, "default_bucket_key"),
        ({"buckets": [], "default_bucket_key": 4}, "default_bucket_key"),
        ({"symbol": None}, "symbol"),
        ({"symbol": None, "symbols": {"3": symbol()}, "default_bucket_key": 3}, "buckets"),
    ],
)
async def test_lengths_that_fit_no_bucket_are_refused(
    api: httpx.AsyncClient, changes: dict[str, Any], field: str
) -> None:
    refused = await api.post("/v1/modules", json=body(**changes))
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, field)


def test_symbols_of_all_lengths_fit_in_a_message() -> None:
    large = {"nodes": ["x" * 700_000]}
    few = ModuleBody(name="net", symbol=large, buckets=tuple(range(1, 12)))
    assert len(few.to_record("cpu(0)").symbols) == 11
    many = ModuleBody(name="net", symbol=large, buckets=tuple(range(1, 257)))
    with pytest.raises(Invalid, match="buckets: got 256 lengths, expected at most 11"):
        many.to_record("cpu(0)")


async def test_unsupported_open_axes_are_refused(api: httpx.AsyncClient) -> None:
    async def refusal(name: str, shapes: Any) -> str:
        refused = await api.post(f"/v1/modules/{name}/bind", json=shapes)
        assert refused.status_code == 422, refused.text
        return refused.json()["errors"][0]["field"]

    await api.post("/v1/modules", json=body())
    batch = json.loads(json.dumps(OPEN).replace(f"[{BATCH}, null", f"[null, {BATCH}"))
    assert await refusal("net", batch) == "data_shapes[0].shape"
    await api.post("/v1/modules", json=body(name="plain", buckets=[]))
    assert await refusal("plain", OPEN) == "data_shapes[0].shape"
    named = body(name="named", symbol=None, symbols={'"small"': symbol()}, buckets=[])
    assert (
        await api.post("/v1/modules", json={**named, "default_bucket_key": '"small"'})
    ).status_code == 201
    assert await refusal("named", OPEN) == "data_shapes"


def language_model(steps: int) -> dict[str, Any]:
    """Return a model that predicts the next of 6 words everywhere; its labels are flattened."""
    words = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=6, output_dim=4, name="embed")
    rows = mx.sym.Reshape(words, shape=(-1, 4), name=f"rows_of_{steps}")
    net = mx.sym.FullyConnected(rows, num_hidden=6, name="next")
    labels = mx.sym.Reshape(mx.sym.Variable("softmax_label"), shape=(-1,))
    parsed: dict[str, Any] = json.loads(mx.sym.SoftmaxOutput(net, labels, name="softmax").tojson())
    return parsed


async def test_labels_not_inferred_from_the_data_keep_their_bound_shapes(
    api: httpx.AsyncClient,
) -> None:
    symbols = {str(steps): language_model(steps) for steps in (3, 5)}
    given = {"name": "lm", "symbols": symbols, "default_bucket_key": 5}
    assert (await api.post("/v1/modules", json=given)).status_code == 201

    def shapes(steps: int) -> dict[str, Any]:
        return {
            "data_shapes": [{"name": "data", "shape": [BATCH, steps]}],
            "label_shapes": [{"name": "softmax_label", "shape": [BATCH, steps]}],
        }

    bound = await api.post("/v1/modules/lm/bind", json=shapes(5))
    assert bound.status_code == 200, bound.text
    await api.post("/v1/modules/lm/params/init", json={"initializer": "xavier", "seed": 1})
    added = await api.post("/v1/modules/lm/buckets", json={"key": 3, **shapes(3)})
    assert added.status_code == 200, added.text
    unknown = await api.post("/v1/modules/lm/buckets", json={"key": 4, **shapes(4)})
    assert unknown.status_code == 422
    assert unknown.json()["errors"][0]["field"] == "key"
    assert unknown.json()["errors"][0]["expected"] == "a key that has a symbol: 3, 5"
    answer = await api.get("/v1/modules/lm/params", headers={"Accept": "application/x-npz"})
    params = np.load(io.BytesIO(answer.content))
    for count, steps in ((2, 3), (7, 3), (1, 5)):
        words = np.random.RandomState(count).randint(0, 6, (count, steps))
        scores = params["embed_weight"][words.ravel()] @ params["next_weight"].T
        powers = np.exp(scores + params["next_bias"])
        answer = await api.post("/v1/modules/lm/predict", json={"inputs": {"data": words.tolist()}})
        assert answer.status_code == 200, answer.text
        assert answer.json()["bucket"] == str(steps)
        np.testing.assert_allclose(
            answer.json()["outputs"]["softmax_output"]["data"],
            powers / powers.sum(axis=1, keepdims=True),
            rtol=1e-5,
        )
