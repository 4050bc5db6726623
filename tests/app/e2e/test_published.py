"""Published models, uploaded unchanged: they answer over HTTP as in MXNet."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.client import Client, ClientError
from app.client.local_server import ServerProcess
from oracle.compare import assert_close
from oracle.shared import ROUNDING, SHARED

FOLDER = SHARED / "checkpoints"


def models(file: str) -> list[str]:
    return sorted(path.parent.name for path in FOLDER.glob(f"*/{file}"))


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client


def create(client: Client, name: str, meta: dict[str, Any]) -> dict[str, Any]:
    return client.create_module(
        name,
        (FOLDER / name / "model-symbol.json").read_text(),
        data_names=list(meta["inputs"]),
        label_names=list(meta.get("label_inputs_zero", {})),
    )


def load(client: Client, name: str, meta: dict[str, Any]) -> dict[str, Any]:
    (file,) = (FOLDER / name).glob("*.params")
    epoch = int(file.stem.rpartition("-")[2])
    client.put_checkpoint_file(name, epoch, file)
    return client.load(name, epoch, allow_extra=bool(meta.get("ignored_params")))


def arrays(file: Path) -> dict[str, np.ndarray]:
    with np.load(file) as archive:
        return {name: archive[name] for name in archive.files}


def descriptions(shapes: dict[str, list[int]], arrays: dict[str, np.ndarray]) -> list[dict]:
    return [
        {"name": name, "shape": shape, "dtype": str(arrays[name].dtype)}
        for name, shape in shapes.items()
    ]


@pytest.mark.parametrize("name", models("outputs.npz"))
def test_outputs_match_mxnets(client: Client, name: str) -> None:
    meta = json.loads((FOLDER / name / "meta.json").read_text())
    inputs = arrays(FOLDER / name / "inputs.npz")
    labels = meta.get("label_inputs_zero", {})
    zeros = {key: np.zeros(shape, "float32") for key, shape in labels.items()}
    create(client, name, meta)
    client.bind(
        name,
        descriptions(meta["inputs"], inputs),
        descriptions(labels, zeros),
        for_training=False,
    )
    assert load(client, name, meta)["stage"] == "initialized"
    outputs = client.predict(name, **{key: inputs[key] for key in meta["inputs"]})
    expected = arrays(FOLDER / name / "outputs.npz")
    assert outputs.keys() == expected.keys()
    for key in expected:
        assert_close(f"{name} {key}", outputs[key], expected[key], ROUNDING.get(name))


@pytest.mark.parametrize("name", models("outputs.npz"))
def test_a_single_upload_is_enough(client: Client, name: str) -> None:
    """Nothing is declared, neither names nor shapes, except the expected batch size."""
    meta = json.loads((FOLDER / name / "meta.json").read_text())
    (file,) = (FOLDER / name).glob("*.params")
    created = client.create_from_files(
        f"{name}-as-it-is", [FOLDER / name / "model-symbol.json", file]
    )
    assert created["found"]["open"] == []
    bound = client.bind(created["name"], for_training=False)
    assert bound["stage"] == "initialized"
    inputs = arrays(FOLDER / name / "inputs.npz")
    left_out = [one for one in inputs if one not in created["data_names"]]
    data = [
        {"name": one, "shape": meta["inputs"][one], "dtype": str(inputs[one].dtype)}
        for one in created["data_names"]
    ]
    client.bind(created["name"], data, for_training=False)
    outputs = client.predict(created["name"], **{one: inputs[one] for one in created["data_names"]})
    expected = arrays(FOLDER / name / "outputs.npz")
    assert outputs.keys() == expected.keys()
    if any(inputs[one].any() for one in left_out if one in created["state_names"]):
        return  # the expected outputs come from initial states that are not zero
    for key in outputs.keys() - {"makeloss0_output"}:  # the loss depends on the label
        assert_close(f"{name} {key}", outputs[key], expected[key], ROUNDING.get(name))


@pytest.mark.skipif(not FOLDER.is_dir(), reason="no ../shared beside the repository")
def test_parameters_of_another_symbol_are_refused(client: Client) -> None:
    meta = {
        "inputs": {"seq_data": [30, 168, 321]},
        "label_inputs_zero": {"seq_label": [30, 321]},
        "ignored_params": ["convolution1_weight"],
    }
    create(client, "lstnet_small", meta)
    shapes = [
        [{"name": name, "shape": shape} for name, shape in meta[key].items()]
        for key in ("inputs", "label_inputs_zero")
    ]
    client.bind("lstnet_small", *shapes)
    with pytest.raises(ClientError) as refused:
        load(client, "lstnet_small", meta)
    assert refused.value.problem["errors"] == [
        {
            "field": "convolution0_weight",
            "got": "shape (10, 1, 2, 5)",
            "expected": "shape (1, 1, 6, 321)",
            "hint": "",
        }
    ]
    assert client.module("lstnet_small")["stage"] == "bound"
