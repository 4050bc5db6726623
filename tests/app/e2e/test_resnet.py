"""ResNet-20 from MXNet's JSON, its parameters sent in every format: outputs match MXNet's."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import safetensors.numpy

from app.client import Client, ClientError
from app.client.local_server import ServerProcess
from app.tensors.codec import NPZ, SAFETENSORS
from oracle import golden_file, networks
from oracle.compare import assert_close
from oracle.topics.models import make_inputs
from served.params_file import write_params
from served.processes import end_executor

IMAGES = make_inputs("resnet20")["data"]
SYMBOL = golden_file.GOLDEN / "models" / "resnet20-symbol.json"
BIND: dict[str, Any] = {
    "data_shapes": [{"name": "data", "shape": list(IMAGES.shape)}],
    "label_shapes": [{"name": "softmax_label", "shape": [len(IMAGES)]}],
}
TOLERANCE = 2e-4
"""Small probabilities here are about exp(-80), which multiplies the rounding of their logarithm."""


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


def create(client: Client, name: str, **bind: Any) -> dict[str, np.ndarray]:
    """Create and bind ResNet-20; return MXNet's parameters, auxiliary states included."""
    client.create_module(name, SYMBOL.read_text())
    client.bind(name, **BIND, **bind)
    arguments = client.module(name)["live"]["arguments"]
    roles = ("parameter", "auxiliary")
    return networks.make_parameters(
        {one["name"]: tuple(one["shape"]) for one in arguments if one["role"] in roles}
    )


def split(values: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return arguments and auxiliary states."""
    is_auxiliary = {name: "_moving_" in name for name in values}
    arguments = {name: value for name, value in values.items() if not is_auxiliary[name]}
    auxiliary = {name: value for name, value in values.items() if is_auxiliary[name]}
    assert len(auxiliary) == 2 * len([name for name in arguments if name.endswith("_gamma")])
    return arguments, auxiliary


def assert_answers_as_mxnet(client: Client, name: str) -> None:
    """Compare the outputs of forward and predict with MXNet's."""
    expected = golden_file.topic("models")["resnet20"]
    output = client.predict(name, data=IMAGES)["softmax_output"]
    assert_close(f"predict {name}", output, expected, TOLERANCE)
    body = {"inputs": {"data": IMAGES.tolist()}, "is_train": False}
    answer = client.request("POST", f"/v1/modules/{name}/forward", json=body).json()
    output = np.array(answer["outputs"]["softmax_output"]["data"], dtype=np.float32)
    assert_close(f"forward {name}", output, expected, TOLERANCE)


@pytest.mark.parametrize("kind", [NPZ, SAFETENSORS])
@pytest.mark.parametrize("for_training", [True, False])
def test_uploaded_parameters(client: Client, kind: str, for_training: bool) -> None:
    name = f"sent-{kind[-3:]}-{for_training}"
    values = create(client, name, for_training=for_training)
    if kind == NPZ:
        client.set_params(name, values)
    else:
        body = safetensors.numpy.save(values)
        headers = {"Content-Type": kind}
        client.request("PUT", f"/v1/modules/{name}/params", content=body, headers=headers)
    assert_answers_as_mxnet(client, name)
    fetched = client.params(name)
    assert fetched.keys() == values.keys()
    assert all(np.array_equal(fetched[key], values[key]) for key in values)


def test_loaded_checkpoint_of_mxnet(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "resnet-0164.params"
    file.write_bytes(write_params(*split(create(client, "loaded"))))
    uploaded = client.put_checkpoint_file("loaded", 164, file)
    assert uploaded["tag"] == "164"
    assert client.load("loaded", 164)["stage"] == "initialized"
    assert_answers_as_mxnet(client, "loaded")


def test_loading_may_come_before_binding(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "early-0001.params"
    file.write_bytes(write_params(*split(create(client, "shapes"))))
    client.create_module("early", SYMBOL.read_text())
    client.put_checkpoint_file("early", 1, file)
    client.load("early", 1)
    client.bind("early", **BIND)
    assert_answers_as_mxnet(client, "early")


def test_saved_parameters_are_byte_identical_to_mxnets(client: Client) -> None:
    values = create(client, "saved")
    client.set_params("saved", values)
    client.save_checkpoint("saved", 7)
    path = "/v1/modules/saved/checkpoints/7/files/saved-0007.params"
    symbol_order = [
        one["name"] for one in client.module("saved")["live"]["arguments"] if one["name"] in values
    ]
    expected = write_params(*split({name: values[name] for name in symbol_order}))
    assert client.request("GET", path).content == expected


def test_a_training_pass_uses_the_statistics_of_the_batch(client: Client) -> None:
    client.set_params("trains", create(client, "trains"))
    inputs = {"data": IMAGES.tolist(), "softmax_label": [0, 1, 2]}
    body = {"inputs": inputs, "is_train": True}
    answer = client.request("POST", "/v1/modules/trains/forward", json=body).json()
    output = np.array(answer["outputs"]["softmax_output"]["data"])
    assert np.abs(output - golden_file.topic("models")["resnet20"]).max() > 0.01
    assert client.module("trains")["stage"] == "initialized"


def test_damaged_checkpoints_change_nothing(client: Client, tmp_path: Path) -> None:
    values = create(client, "kept")
    client.set_params("kept", values)
    whole = write_params(*split(values))
    arguments, auxiliary = split(values)
    refused = {
        "kept-0000.params: got .*array 51 of 107.* are left in the file": whole[: len(whole) // 2],
        "kept-0001.params: got ": SYMBOL.read_bytes(),
        "b0_moving_mean: got no tensor, .* or allow_missing true": write_params(arguments, {}),
        r"fc_bias: got shape \(11,\), expected shape \(10,\)": write_params(
            arguments | {"fc_bias": np.zeros(11, "float32")}, auxiliary
        ),
        "head_bias: .* or allow_extra true": write_params(
            arguments | {"head_bias": np.zeros(2, "float32")}, auxiliary
        ),
    }
    for epoch, (message, content) in enumerate(refused.items()):
        file = tmp_path / f"kept-{epoch:04d}.params"
        file.write_bytes(content)
        client.put_checkpoint_file("kept", epoch, file)
        with pytest.raises(ClientError, match=f"^422 (damaged|invalid): {message}"):
            client.load("kept", epoch)
        assert_answers_as_mxnet(client, "kept")


def test_fine_tuning_starts_from_a_checkpoints_parameters(client: Client, tmp_path: Path) -> None:
    values = create(client, "tuned")
    arguments, auxiliary = split(values)
    head = {name: arguments.pop(name) for name in ("fc_weight", "fc_bias")}
    file = tmp_path / "backbone.params"
    file.write_bytes(write_params(arguments | {"old_head_bias": np.ones(2, "float32")}, auxiliary))
    client.put_checkpoint_file("tuned", 30, file)
    client.init_params("tuned", "zero", seed=1)
    loaded = client.load("tuned", 30, allow_missing=True, allow_extra=True)
    assert loaded["params"] == "set"
    assert client.module("tuned")["live"]["has_unsaved"]
    fetched = client.params("tuned")
    assert all(np.array_equal(fetched[name], values[name]) for name in {*arguments, *auxiliary})
    assert all(not fetched[name].any() for name in head)
    client.set_params("tuned", head, allow_missing=True)
    assert_answers_as_mxnet(client, "tuned")


def test_an_image_of_the_wrong_shape_is_refused(client: Client) -> None:
    client.set_params("shown", create(client, "shown"))
    with pytest.raises(ClientError, match=r"data: got shape \(1, 32, 32, 3\), .*\(n, 3, 32, 32\)"):
        client.predict("shown", data=np.zeros((1, 32, 32, 3)))


def test_a_truncated_symbol_is_refused(client: Client) -> None:
    symbol = json.loads(SYMBOL.read_text())
    symbol["nodes"] = symbol["nodes"][:-1]
    with pytest.raises(ClientError) as refused:
        client.create_module("cut", symbol)
    assert (refused.value.status, refused.value.problem["code"]) == (422, "invalid_graph")


def test_a_symbol_sent_as_text_by_curl(server: ServerProcess) -> None:
    body = '{"name": "typed", "symbol": ' + SYMBOL.read_text() + "}"
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = httpx.post(f"{server.url}/v1/modules", content=body, headers=headers)
    assert answer.status_code == 201, answer.text


def test_a_checkpoint_with_extra_parameters_outlives_the_executor(
    client: Client, tmp_path: Path
) -> None:
    arguments, auxiliary = split(create(client, "restored"))
    file = tmp_path / "published-0001.params"
    file.write_bytes(write_params(arguments | {"head_bias": np.ones(2, "float32")}, auxiliary))
    client.put_checkpoint_file("restored", 1, file)
    client.load("restored", 1, allow_extra=True)
    end_executor(client)
    assert_answers_as_mxnet(client, "restored")
