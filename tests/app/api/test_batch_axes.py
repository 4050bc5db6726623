"""Outputs whose first axis is not the batch: cut along the right axis, or returned whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import core as mx
from app.client import Client
from app.client.errors import Invalid
from app.client.local_server import ServerProcess
from served.awkward_models import save

EXAMPLES = np.random.RandomState(0).rand(70, 4, 6).astype("f")


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client
        for module in client.modules():
            client.delete_module(module["name"])


def by_step() -> mx.sym.Symbol:
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, flatten=False, name="fc")
    return mx.sym.transpose(x, axes=(1, 0, 2), name="by_step")


def load(client: Client, folder: Path, name: str, symbol: mx.sym.Symbol) -> np.ndarray:
    """Upload and bind; return what the net computes for all examples, examples first."""
    client.create_from_files(name, save(folder, symbol, data=(2, 4, 6)))
    client.bind(name, [{"name": "data", "shape": [2, 4, 6]}], for_training=False)
    values = client.params(name)
    return EXAMPLES @ values["fc_weight"].T + values["fc_bias"]


@pytest.mark.parametrize("count", [1, 3, 5, 64, 70])
def test_rows_along_another_axis(client: Client, tmp_path: Path, count: int) -> None:
    expected = load(client, tmp_path, "steps", by_step())[:count].transpose(1, 0, 2)
    (output,) = client.module("steps")["live"]["outputs"]
    assert (output["shape"], output["batch_axis"]) == ([4, 2, 3], 1)
    got = client.predict("steps", data=EXAMPLES[:count])["by_step_output"]
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_outputs_without_a_batch_axis_are_returned_whole(client: Client, tmp_path: Path) -> None:
    """Five examples of four steps make twenty rows, ordered by step as in MXNet."""
    flat = mx.sym.Reshape(by_step(), shape=(-3, 0), name="flat")
    expected = load(client, tmp_path, "flat", flat)[:5].transpose(1, 0, 2).reshape(20, 3)
    (output,) = client.module("flat")["live"]["outputs"]
    assert (output["shape"], output["batch_axis"]) == ([8, 3], None)
    body = {"inputs": {"data": EXAMPLES[:5].tolist()}}
    answer = client.request("POST", "/v1/modules/flat/predict", json=body)
    said = answer.json()["outputs"]["flat_output"]
    assert (said["shape"], said["batch_axis"]) == ([20, 3], None)
    np.testing.assert_allclose(np.reshape(said["data"], (20, 3)), expected, rtol=1e-5)
    headers = {"Accept": "application/x-npy", "Content-Type": "application/json"}
    for _ in range(2):
        answer = client.request("POST", "/v1/modules/flat/predict", json=body, headers=headers)
        assert json.loads(answer.headers["x-batch-axes"]) == {"flat_output": None}


def test_an_output_that_compares_examples_contains_no_padding(
    client: Client, tmp_path: Path
) -> None:
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, flatten=False, name="fc")
    rows = mx.sym.Reshape(x, shape=(0, -1))
    alike = mx.sym.dot(rows, rows, transpose_b=True, name="alike")
    expected = load(client, tmp_path, "alike", alike)[:3].reshape(3, 12)
    got = client.predict("alike", data=EXAMPLES[:3])["alike_output"]
    np.testing.assert_allclose(got, expected @ expected.T, rtol=1e-4)


def test_a_request_the_net_refuses_does_not_affect_later_ones(client: Client) -> None:
    rows = mx.sym.Variable("rows_weight", shape=(5, 3))
    net = mx.sym.take(rows, mx.sym.Variable("data"), mode="raise", name="take")
    client.create_module("rows", net.tojson())
    client.bind("rows", [{"name": "data", "shape": [4]}], for_training=False)
    client.init_params("rows", "xavier")
    executor = client.executors()[0]["pid"]
    first = client.predict("rows", data=np.array([0, 4], "f"))["take_output"]
    for _ in range(2):  # by the second request the module is known
        with pytest.raises(Invalid, match="outside an axis of size 5"):
            client.predict("rows", data=np.array([1, 5], "f"))
    again = client.predict("rows", data=np.array([0, 4], "f"))["take_output"]
    np.testing.assert_array_equal(first, again)
    assert client.executors()[0]["pid"] == executor
