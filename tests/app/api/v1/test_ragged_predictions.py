"""Examples of different lengths in one request."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import core as mx
from app.client import Client, ClientError
from app.client.local_server import ServerProcess

ROWS = [[1, 2, 3], [4, 5, 6, 7], [2], [7, 6, 5]]


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    """A client, and a module with one output per example and one per position."""
    x = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=9, output_dim=4, name="embed")
    positions = mx.sym.softmax(x, name="positions")
    whole = mx.sym.FullyConnected(mx.sym.max(x, axis=1), num_hidden=2, name="whole")
    with Client(server.url) as client:
        symbol = mx.sym.Group([positions, whole]).tojson()
        client.create_module("words", symbol, buckets=[3, 5])
        client.bind("words", [{"name": "data", "shape": [2, None]}], for_training=False)
        client.init_params("words", "normal", options={"sigma": 1.0}, seed=3)
        yield client
        for module in client.modules():
            client.delete_module(module["name"])


def ask(client: Client, body: Any) -> dict[str, Any]:
    answer = client.request("POST", "/v1/modules/words/predict", json=body)
    assert answer.headers["x-model-version"] == "live"
    parsed: dict[str, Any] = answer.json()
    return parsed


@pytest.mark.parametrize(
    "body",
    [{"inputs": {"data": ROWS}}, {"data": ROWS}, {"data": ROWS, "bucket": None}],
)
def test_each_example_gets_the_outputs_it_gets_alone(client: Client, body: dict) -> None:
    check(client, ask(client, body)["outputs"])


def test_bodies_of_any_size_give_the_same(client: Client) -> None:
    rows = ROWS * 2000
    outputs = ask(client, {"inputs": {"data": rows}})["outputs"]
    for output in outputs.values():
        data = output["data"]
        assert data == data[: len(ROWS)] * 2000
        output["data"] = data[: len(ROWS)]
    assert outputs["positions_output"].pop("lengths") == [3, 4, 1, 3] * 2000
    assert outputs["whole_output"].pop("shape") == [8000, 2]
    short = {"positions_output": {"lengths": [3, 4, 1, 3]}, "whole_output": {"shape": [4, 2]}}
    check(client, {name: output | short[name] for name, output in outputs.items()})


def check(client: Client, outputs: dict[str, Any]) -> None:
    alone = [client.predict("words", data=np.array([row], "f")) for row in ROWS]
    assert outputs["positions_output"]["lengths"] == [3, 4, 1, 3]
    for got, one in zip(outputs["positions_output"]["data"], alone, strict=True):
        np.testing.assert_allclose(got, one["positions_output"][0], rtol=1e-5)
    assert outputs["whole_output"]["shape"] == [4, 2]
    expected = np.concatenate([one["whole_output"] for one in alone])
    np.testing.assert_allclose(outputs["whole_output"]["data"], expected, rtol=1e-5)


def test_outputs_of_equal_shape_come_in_every_media_type(client: Client) -> None:
    x = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=9, output_dim=4, name="embed")
    whole = mx.sym.FullyConnected(mx.sym.max(x, axis=1), num_hidden=3, name="whole")
    client.create_module("classes", whole.tojson(), buckets=[3, 5])
    client.bind("classes", [{"name": "data", "shape": [2, None]}], for_training=False)
    client.init_params("classes", "normal", options={"sigma": 1.0}, seed=3)
    path, body = "/v1/modules/classes/predict", {"inputs": {"data": ROWS}}
    alone = [client.predict("classes", data=np.array([row], "f"))["whole_output"] for row in ROWS]
    expected = np.concatenate(alone)
    for copies in (1, 2000):
        many = {"inputs": {"data": ROWS * copies}}
        npy = client.request("POST", path, json=many, headers={"accept": "application/x-npy"})
        assert npy.headers["content-type"] == "application/x-npy"
        found = np.load(io.BytesIO(npy.content))
        np.testing.assert_allclose(found, np.tile(expected, (copies, 1)), rtol=1e-5)
    ranked = client.request("POST", f"{path}?top_k=2", json=body).json()["outputs"]["whole_output"]
    assert [[one["index"] for one in row] for row in ranked] == [
        np.argsort(-row)[:2].tolist() for row in expected
    ]


def test_top_classes_of_ragged_outputs_are_refused(client: Client) -> None:
    with pytest.raises(ClientError) as refused:
        client.request("POST", "/v1/modules/words/predict?top_k=2", json={"data": ROWS})
    (row,) = refused.value.problem["errors"]
    assert (refused.value.status, row["field"]) == (422, "top_k")


@pytest.mark.parametrize(
    ("data", "field", "expected"),
    [
        ([[1, 2, 3], [1] * 6], "data", "what a bucket holds"),
        ([[1, 2, 3], ["a"]], "inputs.data[1]", "numbers"),
        ([[1, 2, 3], [[1, 2], [3]]], "inputs.data[1]", "lists of equal length"),
    ],
)
def test_errors_name_the_example(client: Client, data: list, field: str, expected: str) -> None:
    with pytest.raises(ClientError) as refused:
        ask(client, {"inputs": {"data": data}})
    (row,) = refused.value.problem["errors"]
    assert (refused.value.status, row["field"]) == (422, field)
    assert expected in row["expected"]


def test_a_module_without_buckets_reports_its_one_length(client: Client) -> None:
    client.create_module("plain", mx.sym.Variable("data").tojson())
    client.bind("plain", [{"name": "data", "shape": [2, 3]}], for_training=False)
    client.init_params("plain")
    with pytest.raises(ClientError) as refused:
        client.request("POST", "/v1/modules/plain/predict", json={"inputs": {"data": ROWS}})
    (row,) = refused.value.problem["errors"]
    assert (row["field"], row["got"]) == ("inputs.data", "lists of differing lengths")
