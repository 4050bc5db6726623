"""A quantized network over HTTP: uploaded as saved, it gives the same outputs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from app.cli.demo.tour import LENET, MNIST, SCALE
from app.client import Client, ClientError
from app.client.local_server import ServerProcess

IMAGES = np.random.RandomState(0).uniform(-1, 1, (4, 3, 10, 10)).astype("float32")
DATA: list[dict[str, Any]] = [{"name": "data", "shape": list(IMAGES.shape)}]


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


def quantized(folder: Path) -> tuple[str, Path, np.ndarray]:
    """Return the JSON of a quantized network, its parameter file and its outputs."""
    net = mx.sym.Convolution(mx.sym.var("data"), kernel=(3, 3), num_filter=8, name="conv")
    net = mx.sym.Pooling(mx.sym.Activation(net, act_type="relu"), kernel=(2, 2), stride=(2, 2))
    net = mx.sym.softmax(mx.sym.FullyConnected(net, num_hidden=5, name="fc"), name="out")
    module = mx.mod.Module(net, label_names=None)
    module.bind([("data", IMAGES.shape)], for_training=False)
    mx.random.seed(1)
    module.init_params(mx.init.Xavier())
    made = mx.contrib.quantization.quantize_model(
        net,
        *module.get_params(),
        label_names=None,
        calib_mode="naive",
        calib_data=mx.io.NDArrayIter(IMAGES, batch_size=4),
        quantized_dtype="auto",
    )
    mx.model.save_checkpoint(str(folder / "bytes"), 2, *made)
    symbol, arguments, auxiliary = made
    executor = symbol.simple_bind(mx.cpu(), "null", data=IMAGES.shape)
    executor.copy_params_from(arguments, dict(auxiliary))
    (output,) = executor.forward(data=mx.nd.array(IMAGES))
    return symbol.tojson(), folder / "bytes-0002.params", output.asnumpy()


def test_outputs_match_those_of_the_engine(client: Client, tmp_path: Path) -> None:
    symbol, file, expected = quantized(tmp_path)
    client.create_module("bytes", symbol, label_names=[])
    client.bind("bytes", DATA, [], for_training=False)
    client.put_checkpoint_file("bytes", 2, file)
    assert client.load("bytes", 2)["stage"] == "initialized"
    outputs = client.predict("bytes", data=IMAGES)
    np.testing.assert_allclose(outputs["out_output"], expected, atol=1e-6)
    one = client.predict("bytes", data=IMAGES[:1])
    np.testing.assert_allclose(one["out_output"], expected[:1], atol=1e-6)


def test_training_it_is_refused(client: Client, tmp_path: Path) -> None:
    client.create_module("trained", quantized(tmp_path)[0], label_names=[])
    with pytest.raises(ClientError, match="has no gradient") as refused:
        client.bind("trained", DATA, [], for_training=True)
    assert 400 <= refused.value.status < 500


def test_lenet_keeps_its_accuracy() -> None:
    with np.load(MNIST) as archive:
        parts = [
            mx.io.NDArrayIter(
                archive[f"{part}_images"].reshape(-1, 1, 28, 28) * np.float32(SCALE),
                archive[f"{part}_labels"].astype("float32"),
                batch_size=50,
            )
            for part in ("train", "test")
        ]
    mx.random.seed(5)
    module = mx.mod.Module(mx.sym.load(str(LENET)))
    sgd = {"learning_rate": 0.05, "momentum": 0.9}
    module.fit(parts[0], num_epoch=2, optimizer_params=sgd, initializer=mx.init.Xavier())
    before = dict(module.score(parts[1], "acc"))["accuracy"]
    for mode in ("naive", "entropy"):
        symbol, *params = mx.contrib.quantization.quantize_model(
            module.symbol,
            *module.get_params(),
            calib_mode=mode,
            calib_data=parts[0],
            num_calib_examples=200,
            quantized_dtype="auto",
        )
        made = mx.mod.Module(symbol)
        made.bind(parts[1].provide_data, parts[1].provide_label, for_training=False)
        made.set_params(*params)
        after = dict(made.score(parts[1], "acc"))["accuracy"]
        assert after > before - 0.01, (mode, before, after)
