"""The models folder over HTTP: served, changed under load, broken, emptied."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from app.client import Client, ClientError
from app.client.local_server import ServerProcess, running_server
from served.model_folders import answer_of, write_epoch, write_model
from served.network import BIND, FEATURES, NETWORK
from served.pictures import picture
from served.processes import ENVIRONMENT, end_executor, wait_until

EXAMPLES = np.ones((2, FEATURES), np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models folder."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that scans the folder only on request."""
    settings = {"MODSERVE_MODELS_DIR": str(folder), "MODSERVE_MODELS_POLL_SECONDS": "0"}
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


@contextmanager
def serving(data: Path, settings: dict[str, str]) -> Iterator[Client]:
    with (
        running_server(data, environment=ENVIRONMENT | settings) as server,
        Client(server.url) as client,
    ):
        yield client


def state_of(client: Client, name: str) -> dict[str, Any]:
    (state,) = [one for one in client.models() if one["name"] == name]
    return state


def warnings(client: Client) -> str:
    return " ".join(client.request("GET", "/readyz").json()["warnings"])


def predict(client: Client, name: str) -> int:
    return answer_of(client.predict(name, data=EXAMPLES))


def test_a_model_is_served_under_its_folders_name(client: Client, folder: Path) -> None:
    write_model(folder / "digits", 1, 2)
    (state,) = client.reload_models()
    assert state == {
        "name": "digits",
        "state": "ready",
        "reason": None,
        "checkpoint": "2",
        "epochs": [1, 2],
        "warnings": [],
    }
    assert predict(client, "digits") == 2
    module = client.module("digits")
    assert (module["name"], module["is_from_folder"]) == ("digits", True)
    assert [one["name"] for one in client.modules()] == ["digits"]
    assert [one["epoch"] for one in client.checkpoints("digits")] == [2, 1]


def test_the_declaration_is_applied(client: Client, folder: Path) -> None:
    text = (
        f"inputs: {{data: {{shape: [8, {FEATURES}], dtype: float32}}}}\n"
        "max_batch_size: 16\nmax_delay_us: 50\n"
    )
    write_model(folder / "digits", 1, declaration=text)
    client.reload_models()
    module = client.module("digits")
    assert module["bind"]["data_shapes"][0]["shape"] == [8, FEATURES]
    assert module["serving"]["max_batch_size"] == 16
    assert module["serving"]["max_delay_us"] == 50
    assert predict(client, "digits") == 1


def test_changed_files_are_reloaded_without_a_lost_request(
    server: ServerProcess, client: Client, folder: Path
) -> None:
    write_model(folder / "digits", 1)
    client.reload_models()
    seen, faults, done = [], [], threading.Event()

    def ask() -> None:
        with Client(server.url) as own:
            while not done.is_set():
                try:
                    seen.append(predict(own, "digits"))
                except Exception as error:
                    faults.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for favourite in (0, 1, 2, 0, 2):
            write_epoch(folder / "digits", 1, favourite)
            (state,) = client.reload_models()
            assert state["reason"] is None
            assert predict(client, "digits") == favourite
            count = len(seen)
            wait_until(lambda count=count: len(seen) > count + 8 or faults, "further answers")
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not faults
    assert set(seen) == {0, 1, 2}


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("net-0001.params", b"\0" * 7, "params"),
        ("net-symbol.json", b"{", "net-symbol.json"),
        ("net-symbol.json", b'{"nodes": [], "arg_nodes": [], "heads": []}', "symbol"),
        ("modserve.yaml", b"max_batchsize: 2", "did you mean 'max_batch_size'"),
        ("modserve.yaml", b"executor: gpu(7)", "executor"),
        ("modserve.yaml", b"inputs: {data: {shape: [1, 99]}}", "data"),
        ("modserve.yaml", b"inputs: {dat: {shape: [1, 5]}}", "inputs.dat"),
        ("modserve.yaml", b"buckets: [3]", "inputs"),
    ],
)
def test_broken_files_do_not_affect_the_model_in_service(
    client: Client, folder: Path, file: str, content: bytes, said: str
) -> None:
    write_model(folder / "digits", 1)
    write_model(folder / "other", 2)
    client.reload_models()
    (folder / "digits" / file).write_bytes(content)
    client.reload_models()
    state = state_of(client, "digits")
    assert (state["state"], state["checkpoint"]) == ("ready", "1")
    assert said in state["reason"]
    assert "model digits: " in warnings(client)
    assert "what was loaded before is served" in warnings(client)
    assert (predict(client, "digits"), predict(client, "other")) == (1, 2)
    (folder / "digits" / "modserve.yaml").unlink(missing_ok=True)
    write_model(folder / "digits", 1)
    client.reload_models()
    assert state_of(client, "digits")["reason"] is None
    assert warnings(client) == ""


def test_a_broken_model_does_not_stop_others(client: Client, folder: Path) -> None:
    write_model(folder / "sound", 1)
    write_model(folder / "broken")
    client.reload_models()
    assert state_of(client, "broken")["state"] == "failed"
    assert "a file like net-0001.params" in state_of(client, "broken")["reason"]
    assert predict(client, "sound") == 1
    with pytest.raises(ClientError) as caught:
        predict(client, "broken")
    assert caught.value.status == 404


def test_a_model_directly_in_the_folder_is_reported(client: Client, folder: Path) -> None:
    write_model(folder / "net", 1)
    misplaced = folder / "net-symbol.json"
    shutil.copy(folder / "net" / misplaced.name, misplaced)
    client.reload_models()
    assert "net-symbol.json lies in the models folder" in warnings(client)
    assert predict(client, "net") == 1
    misplaced.unlink()
    client.reload_models()
    assert warnings(client) == ""


def test_a_removed_model_is_no_longer_served(client: Client, folder: Path) -> None:
    write_model(folder / "digits", 1)
    client.reload_models()
    shutil.rmtree(folder / "digits")
    assert client.reload_models() == []
    with pytest.raises(ClientError) as caught:
        predict(client, "digits")
    assert caught.value.status == 404
    assert client.modules() == []


def test_the_folder_takes_precedence_over_the_store(client: Client, folder: Path) -> None:
    client.create_module("digits", NETWORK)
    client.bind("digits", **BIND)
    client.init_params("digits", initializer="xavier", seed=1)
    own = client.predict("digits", data=EXAMPLES)
    write_model(folder / "digits", 2)
    client.reload_models()
    assert predict(client, "digits") == 2
    assert [one["is_from_folder"] for one in client.modules()] == [True]
    shutil.rmtree(folder / "digits")
    client.reload_models()
    again = client.predict("digits", data=EXAMPLES)
    assert all(np.array_equal(again[name], own[name]) for name in own)
    assert [one["is_from_folder"] for one in client.modules()] == [False]


def test_a_model_from_the_folder_cannot_be_changed_over_http(client: Client, folder: Path) -> None:
    write_model(folder / "digits", 1)
    client.reload_models()
    for method, path, body in (
        ("POST", "/v1/modules", {"name": "digits", "symbol": NETWORK}),
        ("POST", "/v1/modules/digits/bind", BIND),
        ("POST", "/v1/modules/digits/params/init", {}),
        ("PATCH", "/v1/modules/digits/serving", {"max_batch_size": 2}),
        ("POST", "/v1/modules/digits/load", {"epoch": 1}),
        ("DELETE", "/v1/modules/digits", None),
        (
            "POST",
            "/v1/modules/digits/fit",
            {"dataset": "d", "epochs": 1, "batch_size": 2, "optimizer": {"name": "sgd"}},
        ),
    ):
        with pytest.raises(ClientError) as caught:
            client.request(method, path, json=body)
        assert caught.value.status == 409, path
        assert "served from the models folder" in caught.value.problem["detail"]
    assert predict(client, "digits") == 1


def test_no_answer_reveals_the_module_behind_a_model(
    server: ServerProcess, client: Client, folder: Path
) -> None:
    """Neither errors, of routes or the executor, nor the model's description."""
    write_model(folder / "digits", 1)
    client.reload_models()
    client.predict("digits", data=EXAMPLES)
    client.create_from_module("mine", "digits")
    wrong = {"inputs": {"data": [[1.0]]}}
    path = "/v1/modules/digits"
    answers = [
        httpx.request(verb, server.url + address, json=body, timeout=60)
        for verb, address, body in (
            ("POST", f"{path}/predict", wrong),
            ("POST", f"{path}/predict", {"inputs": {"other": [[1.0]]}}),
            ("POST", f"{path}/versions/9/predict", {"inputs": {"data": EXAMPLES.tolist()}}),
            ("POST", f"{path}/bind", BIND),
            ("PUT", f"{path}/states", {"value": 1}),
            ("POST", f"{path}/forward", {"inputs": {"data": EXAMPLES.tolist()}}),
            ("POST", f"{path}/checkpoints", {"epoch": 7}),
            ("POST", f"{path}/versions/1/promote", None),
            ("POST", "/v2/models/digits/infer", {"inputs": []}),
            ("POST", "/v2/repository/models/digits/unload", {}),
            ("GET", "/v2/models/digits/versions/9", None),
            *(("GET", f"{path}/{rest}", None) for rest in ("outputs", "optimizer", "monitor")),
            *(("GET", f"{path}/{rest}", None) for rest in ("buckets/plan?k=3", "buckets")),
            *(("GET", f"{path}/{rest}", None) for rest in ("checkpoints/9", "checkpoints/1")),
            *(("GET", f"{path}/{rest}", None) for rest in ("checkpoints", "versions", "symbol")),
            *(("GET", f"{path}/{rest}", None) for rest in ("params/none", "labels/none", "states")),
            ("POST", f"{path}/restore", None),
            ("GET", path, None),
            ("GET", "/v1/modules", None),
            ("GET", "/v1/modules/mine", None),
            ("GET", "/v1/models", None),
            ("GET", "/v1/executors", None),
            ("GET", "/readyz", None),
            ("GET", "/v2/models/digits", None),
            ("GET", "/v2/models/digits/stats", None),
        )
    ]
    stale = httpx.post(f"{server.url}{path}/warm_up", headers={"If-Match": '"0"'})
    assert stale.status_code == 412
    assert sum(answer.status_code >= 400 for answer in answers) > 10
    for answer in (*answers, stale):
        shown = answer.text + str(dict(answer.headers))
        assert ".folder-" not in shown, (answer.request.method, answer.request.url, shown)
    assert answers[0].status_code == 422
    assert "'digits'" in " ".join(answer.text for answer in answers)


def test_a_model_survives_the_death_of_its_executor(client: Client, folder: Path) -> None:
    write_model(folder / "digits", 2)
    client.reload_models()
    end_executor(client)
    assert predict(client, "digits") == 2


def test_a_module_can_be_made_from_a_model_of_the_folder(client: Client, folder: Path) -> None:
    write_model(folder / "digits", 2)
    client.reload_models()
    client.create_from_module("mine", "digits")
    client.bind("mine", **BIND)
    assert predict(client, "mine") == 2


def test_labels_are_read_from_beside_the_model(client: Client, folder: Path) -> None:
    text = "outputs: {softmax_output: {labels: synset.txt}}\n"
    write_model(folder / "digits", 1, declaration=text)
    client.reload_models()
    assert "outputs.softmax_output.labels" in state_of(client, "digits")["reason"]
    (folder / "digits" / "synset.txt").write_text("cat\ndog, hound\nbird\n")
    client.reload_models()
    (best, second), _ = client.predict_top_k("digits", 2, data=EXAMPLES)["softmax_output"]
    assert (best["label"], best["index"]) == ("dog, hound", 1)
    assert second["label"] == "cat"
    for content, said in (
        (text.replace("softmax_", "soft_"), "softmax_output"),
        ("outputs: {softmax_output: {labels: ../synset.txt}}", "labels"),
    ):
        (folder / "digits" / "modserve.yaml").write_text(content)
        client.reload_models()
        assert said in state_of(client, "digits")["reason"]


def test_images_with_a_declared_transform(client: Client, folder: Path, tmp_path: Path) -> None:
    text = (
        "inputs: {data: {shape: [1, 1, 1, 5], transform: {color: gray, mean: [9]}}}\n"
        "outputs: {softmax_output: {labels: synset.txt}}\n"
    )
    write_model(folder / "digits", 1, declaration=text)
    (folder / "digits" / "synset.txt").write_text("cat\ndog\nbird\n")
    (tmp_path / "a.jpg").write_bytes(picture(30, 20, "JPEG"))
    client.reload_models()
    assert client.module("digits")["transforms"]["data"]["mean"] == [9]
    files = [tmp_path / "a.jpg"] * 3
    assert answer_of(client.predict_images("digits", "data", *files)) == 1
    body = {"content": files[0].read_bytes(), "headers": {"Content-Type": "image/jpeg"}}
    answer = client.request("POST", "/v1/modules/digits/predict?top_k=1", **body).json()
    assert answer["outputs"]["softmax_output"][0][0]["label"] == "dog"
    ranked = client.rank_images("digits", "data", 1, *files)["softmax_output"]
    assert [row[0]["label"] for row in ranked] == ["dog"] * 3
    (folder / "digits" / "modserve.yaml").write_text(text.replace("[9]", "[9, 8]"))
    client.reload_models()
    assert "inputs.data.transform.mean" in state_of(client, "digits")["reason"]


def test_texts_with_a_declared_vocabulary(client: Client, folder: Path) -> None:
    text = (
        f"inputs: {{data: {{shape: [1, {FEATURES}], transform: "
        "{type: text, vocabulary: vocab.txt, unknown: <unk>}}}\n"
    )
    write_model(folder / "digits", 1, declaration=text)
    client.reload_models()
    said = state_of(client, "digits")["reason"]
    assert "inputs.data.transform.vocabulary: got vocab.txt, expected a file beside" in said
    (folder / "digits" / "vocab.txt").write_text("<unk>\nthe\ncat\n")
    client.reload_models()
    assert client.module("digits")["transforms"]["data"]["vocabulary_size"] == 3
    assert answer_of(client.predict_texts("digits", "data", "the cat", "a dog")) == 1
    (folder / "digits" / "vocab.txt").write_text("the\ncat\n")
    client.reload_models()
    said = state_of(client, "digits")["reason"]
    assert "inputs.data.transform.unknown: got <unk>" in said
    assert answer_of(client.predict_texts("digits", "data", "the cat")) == 1


def test_buckets(client: Client, folder: Path) -> None:
    symbol = json.loads(json.dumps(NETWORK))
    symbol["nodes"][3]["attrs"]["flatten"] = "False"
    symbol["nodes"][5] = {
        "op": "sum",
        "name": "total",
        "attrs": {"axis": "1"},
        "inputs": [[3, 0, 0]],
    }
    del symbol["nodes"][4]
    symbol["arg_nodes"], symbol["heads"] = [0, 1, 2], [[4, 0, 0]]
    text = f"inputs: {{data: {{shape: [2, null, {FEATURES}], layout: NTC}}}}\nbuckets: [4, 2]\n"
    write_model(folder / "lengths", 1, declaration=text)
    (folder / "lengths" / "net-symbol.json").write_text(json.dumps(symbol))
    client.reload_models()
    assert client.module("lengths")["bucket_keys"] == ["2", "4"]
    outputs = client.predict("lengths", data=np.ones((2, 2, FEATURES), np.float32))
    assert answer_of(outputs) == 1


def test_polling_and_restarting_with_loaded_models(tmp_path: Path) -> None:
    folder, data = tmp_path / "models", tmp_path / "data"
    write_model(folder / "digits", 1)
    settings = {"MODSERVE_MODELS_DIR": str(folder), "MODSERVE_MODELS_POLL_SECONDS": "0.05"}
    with serving(data, settings) as client:
        assert predict(client, "digits") == 1
        write_epoch(folder / "digits", 3)
        wait_until(lambda: state_of(client, "digits")["checkpoint"] == "3", "the new epoch")
        assert predict(client, "digits") == 0
        made = client.module("digits")["created_at"]
    with serving(data, settings) as client:
        assert client.module("digits")["created_at"] == made
        assert predict(client, "digits") == 0
    with serving(data, {}) as client:
        assert client.modules() == client.models() == []
        with pytest.raises(ClientError) as caught:
            client.reload_models()
        assert caught.value.status == 409


def test_published_models(tmp_path: Path, shared_dir: Path) -> None:
    names = ("lenet_miraclewkf", "mnist_mentalblood")
    for name in names:
        (tmp_path / "models" / name).mkdir(parents=True)
        for file in (shared_dir / "checkpoints" / name).glob("model-*"):
            shutil.copy(file, tmp_path / "models" / name)
    settings = {"MODSERVE_MODELS_DIR": str(tmp_path / "models")}
    with serving(tmp_path / "data", settings) as client:
        assert [one["state"] for one in client.models()] == ["ready", "ready"]
        for name in names:
            golden = shared_dir / "checkpoints" / name
            inputs, outputs = np.load(golden / "inputs.npz"), np.load(golden / "outputs.npz")
            answers = client.predict(name, data=inputs["data"])
            for answer, key in zip(answers.values(), outputs, strict=True):
                np.testing.assert_allclose(answer, outputs[key], rtol=1e-4, atol=1e-5)
