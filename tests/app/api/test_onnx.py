"""Checkpoints downloaded as ONNX models and run by onnxruntime."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

import core as mx
from app.client import Client, ClientError, Conflict, NotFound
from app.client.local_server import ServerProcess
from served.network import CLASSES, FEATURES, NETWORK
from served.onnx_models import run_onnx
from served.params_file import write_params

SYMBOL = json.dumps(NETWORK).encode()
VALUES = {
    "fc_weight": np.random.RandomState(1).rand(CLASSES, FEATURES).astype(np.float32),
    "fc_bias": np.arange(CLASSES, dtype=np.float32),
}


@pytest.fixture
def client(server: ServerProcess, tmp_path: Path) -> Iterator[Client]:
    """A client of a server with a module ``net`` of a checkpoint."""
    (tmp_path / "net-symbol.json").write_bytes(SYMBOL)
    (tmp_path / "net-0003.params").write_bytes(write_params(VALUES, {}))
    with Client(server.url) as client:
        files = [tmp_path / "net-symbol.json", tmp_path / "net-0003.params"]
        client.create_from_files("net", files)
        yield client
        for module in client.modules():
            client.delete_module(module["name"])


def test_the_onnx_model_gives_the_modules_outputs(client: Client, tmp_path: Path) -> None:
    target = tmp_path / "net.onnx"
    with pytest.raises(Conflict, match="bind it first"):
        client.get_onnx("net", 3, target)
    assert not target.exists()
    client.bind("net", [{"name": "data", "shape": [2, FEATURES]}])
    assert client.get_onnx("net", 3, target) == []
    for count in (1, 5):
        rows = np.random.RandomState(count).rand(count, FEATURES).astype(np.float32)
        (got,) = run_onnx(onnx.load(target), {"data": rows})
        expected = client.predict("net", data=rows)["softmax_output"]
        np.testing.assert_allclose(got, expected, atol=1e-6)
    path = "/v1/modules/net/checkpoints/3/onnx"
    answer = client.request("GET", path, headers={"Range": "bytes=0-3"})
    assert (answer.status_code, answer.content) == (206, target.read_bytes()[:4])
    assert answer.headers["Content-Disposition"] == 'attachment; filename="net-3.onnx"'
    with pytest.raises(NotFound):
        client.get_onnx("net", 4, target)


def test_what_onnx_cannot_express_is_named(client: Client, tmp_path: Path) -> None:
    pooled = mx.sym.Pooling(
        mx.sym.Variable("data"), kernel=(2, 2), pool_type="lp", p_value=2, name="pool"
    )
    net = mx.sym.FullyConnected(pooled, num_hidden=2, name="fc")
    client.create_module("pooled", net.tojson(), label_names=[])
    client.bind("pooled", [{"name": "data", "shape": [2, 1, 4, 4]}], for_training=False)
    client.init_params("pooled", initializer="xavier")
    client.save_checkpoint("pooled", 1)
    with pytest.raises(ClientError) as refused:
        client.get_onnx("pooled", 1, tmp_path / "pooled.onnx")
    assert refused.value.problem["status"] == 422
    assert "Pooling 'pool'" in refused.value.problem["errors"][0]["got"]
    assert [*tmp_path.glob("pooled*")] == []


def test_what_the_export_leaves_out_is_reported(client: Client, tmp_path: Path) -> None:
    data, label = mx.sym.Variable("data"), mx.sym.Variable("softmax_label")
    net = mx.sym.FullyConnected(data, num_hidden=3, name="fc")
    loss = mx.sym.softmax_cross_entropy(net, label, name="loss")
    client.create_module("two", mx.sym.Group([net, loss]).tojson())
    client.bind(
        "two",
        [{"name": "data", "shape": [2, 4]}],
        [{"name": "softmax_label", "shape": [2]}],
        for_training=False,
    )
    client.init_params("two", initializer="xavier")
    client.save_checkpoint("two", 1)
    (note,) = client.get_onnx("two", 1, tmp_path / "two.onnx")
    assert note == "left out, because they need a label: loss_output"
