"""Models in the models folder with declared versions, sequences and instances."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.client import Client, ClientError
from app.client.local_server import ServerProcess, running_server
from served.model_folders import answer_of, write_model
from served.network import FEATURES
from served.params_file import write_params
from served.processes import ENVIRONMENT, wait_until
from served.recurrent import FEATURES as STEP_FEATURES
from served.recurrent import fused, long_pass

EXAMPLES = np.ones((2, FEATURES), np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models folder."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with two executors that scans the folder only on request."""
    settings = {
        "MODSERVE_MODELS_DIR": str(folder),
        "MODSERVE_MODELS_POLL_SECONDS": "0",
        "MODSERVE_DEVICES": '["cpu(0)", "cpu(1)"]',
    }
    data = tmp_path_factory.mktemp("data")
    with running_server(data, environment=ENVIRONMENT | settings) as server:
        yield server


@pytest.fixture
def client(server: ServerProcess, folder: Path) -> Iterator[Client]:
    """A client of it; the folder is empty again after the test."""
    with Client(server.url) as client:
        yield client
        for one in folder.iterdir():
            shutil.rmtree(one)
        client.reload_models()
        for module in client.modules():
            client.delete_module(module["name"])


def load(client: Client, folder: Path, declaration: str, *epochs: int) -> Any:
    """Write a model ``digits`` with these epochs; return why it is not served, or None."""
    write_model(folder / "digits", *epochs, declaration=declaration)
    (state,) = client.reload_models()
    return state["reason"]


def predict(client: Client, version: str | None = None) -> int:
    if version is None:
        return answer_of(client.predict("digits", data=EXAMPLES))
    return answer_of(client.predict_with_version("digits", version, data=EXAMPLES))


def test_versions(client: Client, folder: Path) -> None:
    text = "versions: {promoted: 1, labels: {old: 1, new: 2}, canary: {version: 3, weight: 0}}"
    assert load(client, folder, text, 1, 2, 3) is None
    listed = client.versions("digits")
    assert (listed["promoted"], listed["labels"]) == ("1", {"new": 2, "old": 1})
    assert listed["canary"] == {"version": 3, "weight": 0}
    names = (None, "old", "new", "3", "live", "latest")
    assert [predict(client, name) for name in names] == [1, 1, 2, 0, 0, 0]
    with pytest.raises(ClientError, match="models folder"):
        client.promote("digits", 2)
    assert load(client, folder, "versions: {promoted: 2}", 1, 2, 3) is None
    assert predict(client) == 2
    assert load(client, folder, "", 1, 2, 3) is None
    assert client.versions("digits")["promoted"] == "live"
    assert predict(client) == 0


def test_instances(client: Client, folder: Path) -> None:
    """The last epoch is promoted unless another one is named."""

    def is_ready() -> bool:
        found = client.module("digits")["instances"]
        return [one["state"] for one in found] == ["ready", "ready"]

    assert load(client, folder, "instances: 2\nexecutor: cpu(1)", 1, 2) is None
    assert client.versions("digits")["promoted"] == "2"
    wait_until(is_ready, "both instances")
    found = client.module("digits")["instances"]
    assert [one["executor"] for one in found] == ["cpu(1)", "cpu(0)"]
    assert predict(client) == 2
    assert load(client, folder, "instances: 2\nversions: {promoted: 1}", 1, 2) is None
    assert predict(client) == 1
    wait_until(is_ready, "both instances of the other module")


def test_a_model_half_created_when_the_server_died_is_created_again(tmp_path: Path) -> None:
    """One epoch had not been added yet."""
    settings = {"MODSERVE_MODELS_DIR": str(tmp_path / "models")}
    write_model(tmp_path / "models" / "digits", 1, 2, declaration="versions: {promoted: 1}")
    for turn in range(2):
        with (
            running_server(tmp_path / "data", environment=ENVIRONMENT | settings) as server,
            Client(server.url) as client,
        ):
            assert [one["epoch"] for one in client.checkpoints("digits")] == [2, 1]
            assert [predict(client), predict(client, "live")] == [1, 2]
        if not turn:
            (module,) = (tmp_path / "data" / "modules").glob("digits*")
            shutil.rmtree(module / "checkpoints" / "1")


def test_sequences(client: Client, folder: Path) -> None:
    symbol, steps = fused("gru"), 3
    shape = [steps, 8, STEP_FEATURES]
    client.create_module("other", symbol.tojson(), label_names=[], state_names=["h"])
    client.bind("other", [{"name": "data", "shape": shape, "layout": "TNC"}], for_training=False)
    client.init_params("other", "uniform", seed=7, options={"scale": 0.7})
    params = client.params("other")
    (folder / "speech").mkdir()
    (folder / "speech" / "net-symbol.json").write_text(symbol.tojson())
    (folder / "speech" / "net-0001.params").write_bytes(write_params(params, {}))
    text = {
        "inputs": {"data": {"shape": shape, "layout": "TNC"}},
        "states": [{"state": "h", "output": "rnn_state_output"}],
        "max_sequences": 2,
        "max_sequence_idle_seconds": 60.5,
    }
    (folder / "speech" / "modserve.yaml").write_text(json.dumps(text))
    (state,) = client.reload_models()
    assert state["reason"] is None
    module = client.module("speech")
    assert (module["state_names"], module["data_names"]) == (["h"], ["data"])
    assert module["serving"]["states"] == text["states"]
    assert module["serving"]["max_sequences"] == 2
    assert module["serving"]["max_sequence_idle_seconds"] == 60.5
    data = np.random.default_rng(0).random((2 * steps, 1, STEP_FEATURES), "f")
    found = [
        next(
            iter(
                client.predict_part(
                    "speech", "s", start=not at, data=data[at : at + steps]
                ).values()
            )
        )
        for at in (0, steps)
    ]
    expected = long_pass(symbol, params, data)
    np.testing.assert_allclose(np.concatenate(found), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("declaration", "said"),
    [
        ("instances: 3", r"instances: got 3, expected at most 2.*cpu(0), cpu(1)"),
        ("instances: 0", "instances: got 0"),
        (
            "versions: {promoted: 7}",
            "versions.promoted: got 7, expected an epoch with a file: 1, 2",
        ),
        ("versions: {labels: {new: 7}}", "versions.labels.new: got 7"),
        ("versions: {labels: {live: 1}}", "label: got live"),
        ("versions: {canary: {version: 7, weight: 0.5}}", "versions.canary.version: got 7"),
        ("versions: {canary: {version: 1, weight: 2}}", "versions.canary.weight: got 2"),
        ("versions: {latest: 1}", "versions.latest"),
        (
            "states: [{state: h, output: softmax_output}]",
            "state_names: got h, expected arguments of the symbol: data",
        ),
        ("states: [{state: data}]", "states[0].output"),
    ],
)
def test_invalid_declarations_name_their_field(
    client: Client, folder: Path, declaration: str, said: str
) -> None:
    assert load(client, folder, "", 1, 2) is None
    reason = load(client, folder, declaration, 1, 2)
    for part in said.split(".*"):
        assert part in reason
    assert predict(client) == 2, "the version loaded before is still served"
