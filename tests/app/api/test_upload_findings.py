"""Third-party models uploaded without explanation: how the server classifies their variables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from app.client import Client, ClientError
from app.client.local_server import ServerProcess
from served.awkward_models import CLASSES, HIDDEN, STEPS, detector, reader, save
from served.params_file import write_params

READER = {
    "data": (2, 1, 8, 8),
    "l0_init_h": (2, HIDDEN),
    "l0_init_c": (2, HIDDEN),
    "label": (2, 3),
}


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.url) as client:
        yield client
        for module in client.modules():
            client.delete_module(module["name"])


def roles(created: dict[str, Any]) -> dict[str, tuple[str, Any]]:
    return {one["name"]: (one["role"], one["shape"]) for one in created["found"]["inputs"]}


def rows(refused: ClientError) -> list[tuple[str, str]]:
    return [(row["field"], row["got"]) for row in refused.problem["errors"]]


def test_a_label_is_found_under_any_name(client: Client, tmp_path: Path) -> None:
    files = save(tmp_path, detector(), data=(2, 3, 12, 12), label=(2,))
    created = client.create_from_files("eye", files)
    assert roles(created) == {"data": ("data", [1, 3, 12, 12]), "label": ("label", [1])}
    assert created["found"]["outputs"] == ["softmax_output"]
    assert (created["found"]["open"], created["found"]["warnings"]) == ([], [])
    bound = client.bind("eye")
    assert bound["stage"] == "initialized"
    assert bound["bind"]["data_shapes"][0]["shape"] == [1, 3, 12, 12]
    assert bound["bind"]["label_shapes"][0]["shape"] == [1]
    three = np.random.RandomState(1).rand(3, 3, 12, 12).astype("f")
    scores = client.predict("eye", data=three)["softmax_output"]
    assert scores.shape == (3, 2)
    for _ in range(2):
        alone = client.predict("eye", data=three[1])["softmax_output"]
        np.testing.assert_allclose(alone, scores[1:2], rtol=1e-5)


def test_initial_states_need_not_be_declared_or_sent(client: Client, tmp_path: Path) -> None:
    files = save(tmp_path, reader(), **READER)
    created = client.create_from_files("reader", files)
    assert {name: role for name, (role, _) in roles(created).items()} == {
        "data": "data",
        "label": "label",
        "l0_init_h": "state",
        "l0_init_c": "state",
    }
    assert "label: its shape does not follow" in created["found"]["warnings"][-1]
    assert client.module("reader")["warnings"] == created["found"]["warnings"]
    with pytest.raises(ClientError) as refused:
        client.bind("reader", [{"name": "data", "shape": [2, 1, 8, 8]}])
    assert rows(refused.value) == [("label_shapes", "no shape of 'label'")]
    client.bind("reader", [{"name": "data", "shape": [2, 1, 8, 8]}], for_training=False)
    x = np.random.RandomState(0).rand(2, 1, 8, 8).astype("f")
    got = client.predict("reader", data=x)["letters_output"]
    symbol, arguments, auxiliary = mx.model.load_checkpoint(str(tmp_path / "net"), 2)
    module = mx.mod.Module(symbol, data_names=list(READER), label_names=None)
    module.bind(list(READER.items()), for_training=False)
    module.set_params(arguments, auxiliary)
    zeros = [mx.nd.zeros(shape) for name, shape in READER.items() if name != "data"]
    module.forward(mx.io.DataBatch([mx.nd.array(x), *zeros]), is_train=False)
    assert got.shape == (2 * STEPS, CLASSES)
    np.testing.assert_allclose(got, module.get_outputs()[0].asnumpy(), rtol=1e-5)


def test_a_module_trains_with_the_declared_label(client: Client, tmp_path: Path) -> None:
    client.create_from_files("reader", save(tmp_path, reader(), **READER))
    bound = client.bind(
        "reader",
        [{"name": "data", "shape": [2, 1, 8, 8]}],
        [{"name": "label", "shape": [2, 3]}],
    )
    assert bound["bind"]["label_shapes"][0]["shape"] == [2, 3]
    again = client.bind("reader", inputs_need_grad=True)
    assert again["bind"]["data_shapes"] == bound["bind"]["data_shapes"]
    assert again["bind"]["label_shapes"] == bound["bind"]["label_shapes"]
    assert again["bind"]["inputs_need_grad"] is True


def test_declared_names_take_precedence(client: Client, tmp_path: Path) -> None:
    files = save(tmp_path, reader(), **READER)
    names = ["data", "l0_init_h", "l0_init_c"]
    created = client.create_from_files("reader", files, data_names=names, label_names=["label"])
    assert (created["data_names"], created["state_names"]) == (names, [])
    bound = client.bind(
        "reader",
        [{"name": "data", "shape": [2, 1, 8, 8]}],
        [{"name": "label", "shape": [2, 3]}],
    )
    assert "label: its shape" not in " ".join(bound["warnings"])
    assert [one["shape"] for one in bound["bind"]["data_shapes"]] == [
        [2, 1, 8, 8],
        [2, HIDDEN],
        [2, HIDDEN],
    ]


def test_extra_parameters_cause_a_warning_and_all_missing_ones_are_named(
    client: Client, tmp_path: Path
) -> None:
    symbol, params = save(tmp_path, detector(), data=(2, 3, 12, 12), label=(2,))
    _, arrays, _ = mx.model.load_checkpoint(str(tmp_path / "net"), 2)
    values = {name: array.asnumpy() for name, array in arrays.items()}
    odd = {**values, "old_weight": np.full((2,), np.nan, "f"), "old_bias": np.ones(2, "f")}
    params.write_bytes(write_params(odd, {}))
    created = client.create_from_files("eye", [symbol, params])
    assert created["found"]["warnings"] == [
        "parameters that the symbol does not have are skipped: old_weight, old_bias",
        "NaN or infinite values in old_weight",
    ]
    assert client.module("eye")["warnings"] == created["found"]["warnings"]
    client.bind("eye")
    assert client.module("eye")["warnings"] == created["found"]["warnings"]
    client.set_params("eye", values, allow_missing=True)
    assert client.module("eye")["warnings"] == []
    with pytest.raises(ClientError) as refused:
        client.create_from_files("strict", [symbol, params], allow_extra=False)
    assert [field for field, _ in rows(refused.value)] == ["old_weight", "old_bias"]
    del values["conv_weight"], values["fc_bias"]
    params.write_bytes(write_params(values, {}))
    with pytest.raises(ClientError) as refused:
        client.create_from_files("less", [symbol, params])
    assert [field for field, _ in rows(refused.value)] == ["conv_weight", "fc_bias"]
    assert [one["name"] for one in client.modules()] == ["eye"]


def test_chosen_outputs_leave_a_head_for_training_out(
    client: Client, tmp_path: Path, shared_dir: Path
) -> None:
    """A real model whose last node is a ``Custom`` operator of its authors."""
    folder = shared_dir / "checkpoints" / "mtcnn_head_pnet"
    files = [folder / "model-symbol.json", folder / "model-0015.params"]
    with pytest.raises(ClientError) as refused:
        client.create_from_files("head", files)
    assert "'negativemining' is not registered" in refused.value.problem["detail"]
    assert "name in outputs what the rest" in refused.value.problem["errors"][0]["hint"]
    outputs = ["conv4_1_output", "conv4_2"]
    created = client.create_from_files("head", files, outputs=outputs)
    assert created["found"]["outputs"] == ["conv4_1_output", "conv4_2_output"]
    assert (created["data_names"], created["label_names"]) == (["data"], [])
    client.bind("head", [{"name": "data", "shape": [1, 3, 12, 12]}], for_training=False)
    x = np.random.RandomState(2).rand(1, 3, 12, 12).astype("f")
    got = client.predict("head", data=x)
    with pytest.raises(ClientError) as refused:
        client.create_from_files("none", files, outputs=["conv4_3"])
    assert rows(refused.value) == [("outputs[0]", "conv4_3")]
    kept = mx.sym.load_json(json.dumps(client.symbol("head")))
    params = mx.nd.load(str(files[1]))
    arguments = {key[4:]: one for key, one in params.items() if key[4:] in kept.list_arguments()}
    outputs = kept.bind(mx.cpu(), {**arguments, "data": mx.nd.array(x)}).forward()
    for one, name in zip(outputs, created["found"]["outputs"], strict=True):
        np.testing.assert_allclose(got[name], one.asnumpy(), rtol=1e-5, atol=1e-6)


def test_a_symbol_of_a_body_is_cut_to_its_outputs(client: Client) -> None:
    text = detector().tojson()
    made = client.create_module("cut", text, outputs=["conv_output"])
    assert made["found"]["outputs"] == ["conv_output"]
    assert made["label_names"] == []
    assert len(client.symbol("cut")["nodes"]) == 4


def test_a_symbol_alone(client: Client) -> None:
    created = client.create_module("eye", detector().tojson())
    assert roles(created) == {"data": ("data", None), "label": ("label", None)}
    assert created["found"]["open"] == ["data"]
    with pytest.raises(ClientError) as refused:
        client.bind("eye")
    assert rows(refused.value) == [("data_shapes", "no shape of 'data'")]
    assert client.bind("eye", [{"name": "data", "shape": [2, 3, 9, 9]}])["stage"] == "bound"


def test_buckets_need_declared_shapes(client: Client) -> None:
    x = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=9, output_dim=4, name="embed")
    client.create_module("words", mx.sym.sum(x, axis=1).tojson(), buckets=[5, 9])
    with pytest.raises(ClientError) as refused:
        client.bind("words")
    assert rows(refused.value) == [("data_shapes", "[]")]
