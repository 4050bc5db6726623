"""Archives of mxnet-model-server over HTTP: uploaded, and served from the models folder."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.client import Client, ClientError
from app.client.local_server import ServerProcess, running_server
from served.archives import ARCHIVES, MANIFEST, files_of_model, write_archive
from served.model_folders import answer_of, write_model
from served.network import FEATURES
from served.pictures import picture
from served.processes import ENVIRONMENT, end_executor

EXAMPLES = np.ones((2, FEATURES), np.float32)
MOST_BYTES = 1 << 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models folder."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def server(folder: Path, data_dir: Path) -> Iterator[ServerProcess]:
    """A server that scans the folder only on request."""
    settings = {
        "MODSERVE_MODELS_DIR": str(folder),
        "MODSERVE_MODELS_POLL_SECONDS": "0",
        "MODSERVE_MAX_CHECKPOINT_BYTES": str(MOST_BYTES),
    }
    with running_server(data_dir, environment=ENVIRONMENT | settings) as server:
        yield server


@pytest.fixture
def client(server: ServerProcess, folder: Path) -> Iterator[Client]:
    """A client of it; the folder is empty again after the test."""
    with Client(server.url) as client:
        yield client
        for one in folder.iterdir():
            shutil.rmtree(one) if one.is_dir() else one.unlink()
        client.reload_models()
        for module in client.modules():
            client.delete_module(module["name"])


def best_of(client: Client, module: str, image: bytes) -> list[str]:
    path, headers = f"/v1/modules/{module}/predict?top_k=3", {"Content-Type": "image/png"}
    answer = client.request("POST", path, content=image, headers=headers).json()
    return [one["label"] for one in answer["outputs"]["softmax_output"][0]]


@pytest.mark.parametrize("file", ["tiny-1.0.mar", "tiny-0.2.model", "tiny-0.1.model"])
def test_an_archive_of_the_original_tools_is_imported(client: Client, file: str) -> None:
    module = client.create_from_archive(ARCHIVES / file)
    assert (module["name"], module["stage"], module["checkpoint"]) == ("tiny", "initialized", "0")
    assert module["bind"]["data_shapes"][0]["shape"] == [1, 3, 4, 5]
    assert module["labelled_outputs"] == ["softmax_output"]
    assert module["transforms"]["data"]["size"] == [4, 5]
    archive = module["archive"]
    assert archive["taken"] == {
        "symbol": "tiny-symbol.json",
        "params": "tiny-0000.params",
        "inputs": "signature.json",
        "labels": "synset.txt",
    }
    service = archive["handler"].partition(":")[0].removesuffix(".py")
    assert archive["passed_over"] == [f"{service}.py"]
    never_run, resized = archive["warnings"]
    assert f"handler {archive['handler']!r} is Python code, which is never run" in never_run
    assert "resized to 4 x 5 pixels" in resized
    assert best_of(client, "tiny", picture(40, 30)) == [
        "n02110958 pug",
        "n01530575 brambling",
        "n02123045 tabby",
    ]
    assert client.module("tiny")["archive"] == archive


def test_an_imported_module_survives_its_executor_and_can_be_trained(
    client: Client, tmp_path: Path
) -> None:
    path = write_archive(tmp_path / "digits.mar", files_of_model(2))
    module = client.create_from_archive(path, name="mine")
    assert (module["name"], module["archive"]["model"]) == ("mine", "digits")
    assert [one["epoch"] for one in client.checkpoints("mine")] == [3]
    end_executor(client)
    assert answer_of(client.predict("mine", data=EXAMPLES)) == 2
    client.bind(
        "mine",
        [{"name": "data", "shape": [4, FEATURES]}],
        [{"name": "softmax_label", "shape": [4]}],
    )
    assert client.module("mine")["stage"] == "initialized"


def test_what_an_archive_leaves_out_is_inferred_and_reported(
    client: Client, tmp_path: Path
) -> None:
    files = files_of_model() | {"synset.txt": b"only one\n"}
    del files["signature.json"]
    module = client.create_from_archive(write_archive(tmp_path / "digits.mar", files))
    assert module["bind"]["data_shapes"][0]["shape"] == [1, FEATURES]
    assert module["labelled_outputs"] == []
    assert module["archive"]["taken"].keys() == {"symbol", "params"}
    _, shape, labels = module["archive"]["warnings"]
    assert f"the shape (1, {FEATURES}) of input 'data'" in shape
    assert "its 1 labels are not taken" in labels
    assert answer_of(client.predict("digits", data=EXAMPLES)) == 1


def test_a_repeated_request_makes_one_module(client: Client, tmp_path: Path) -> None:
    path = write_archive(tmp_path / "digits.mar", files_of_model())
    for _ in range(2):
        answer = client.request(
            "POST",
            "/v1/modules",
            files={"archive": ("digits.mar", path.read_bytes())},
            headers={"Idempotency-Key": "one"},
        )
        assert answer.status_code == 201
    assert [one["name"] for one in client.modules()] == ["digits"]
    with pytest.raises(ClientError) as caught:
        client.create_from_archive(path)
    assert caught.value.status == 409
    assert answer_of(client.predict("digits", data=EXAMPLES)) == 1


def other_model(name: str) -> dict[str, Any]:
    return MANIFEST | {"model": {"modelName": name, "handler": "service:handle"}}


def changed(**files: bytes) -> dict[str, bytes]:
    named = {name.replace("_", "-", 1).replace("__", "."): one for name, one in files.items()}
    return files_of_model() | named


SIGNATURE = {"inputs": [{"data_name": "data", "data_shape": [0, FEATURES + 1]}]}


@pytest.mark.parametrize(
    ("files", "manifest", "status", "said"),
    [
        (changed(), other_model("no name"), 422, "send a name beside the archive"),
        (changed(), {}, 422, "MANIFEST.json: model"),
        (changed(net_symbol__json=b"{"), MANIFEST, 422, "symbol"),
        (changed(net_symbol__json=b'{"nodes": []}'), MANIFEST, 422, "no field 'arg_nodes'"),
        (changed(net_0003__params=b"\0" * 99), MANIFEST, 422, "params"),
        (changed(net_0003__params=b"\0" * (MOST_BYTES + 1)), MANIFEST, 413, "MAX_CHECKPOINT_BYTES"),
        (changed(net_symbol__json=b" " * (MOST_BYTES + 1)), MANIFEST, 413, "MAX_CHECKPOINT_BYTES"),
        (
            changed() | {"signature.json": json.dumps(SIGNATURE).encode()},
            MANIFEST,
            422,
            "shape",
        ),
        (
            changed() | {"signature.json": json.dumps(SIGNATURE).replace("data", "dat").encode()},
            MANIFEST,
            422,
            "signature",
        ),
        (
            changed()
            | {"signature.json": b'{"inputs": [{"data_name": "other", "data_shape": [1]}]}'},
            MANIFEST,
            422,
            "inputs.other",
        ),
        (changed() | {"synset.txt": b"\xff"}, MANIFEST, 422, "synset.txt"),
        (changed() | {"../../evil": b""}, MANIFEST, 422, "paths inside the archive"),
    ],
)
def test_refused_archives_leave_nothing_behind(
    client: Client,
    data_dir: Path,
    tmp_path: Path,
    files: dict[str, bytes],
    manifest: Any,
    status: int,
    said: str,
) -> None:
    path = write_archive(tmp_path / "a.mar", files, manifest)
    with pytest.raises(ClientError) as caught:
        client.create_from_archive(path)
    assert caught.value.status == status, caught.value.problem
    assert said in caught.value.problem["detail"]
    assert client.modules() == []
    assert list((data_dir / "uploads").iterdir()) == []
    assert [one for one in (data_dir / "modules").glob("*/*") if one.is_dir()] == []
    assert not (data_dir.parent / "evil").exists()


@pytest.mark.parametrize(
    ("form", "files", "said"),
    [
        ({}, {"archive": ("a.zip", b"x")}, "a .mar of model-archiver or a model.tar.gz of Sage"),
        ({}, {"archive": ("a.mar", b"x")}, "archive"),
        ({"kind": "module"}, {"archive": ("a.mar", b"x")}, "kind"),
        ({"executor": "gpu(9)"}, {"archive": ("a.mar", b"x")}, "executor"),
        ({}, {"archive": ("a.mar", b"x"), "params": ("a-0000.params", b"x")}, "beside an archive"),
    ],
)
def test_invalid_forms_are_refused(client: Client, form: Any, files: Any, said: str) -> None:
    with pytest.raises(ClientError) as caught:
        client.request("POST", "/v1/modules", data=form, files=files)
    assert caught.value.status == 422
    assert said in caught.value.problem["detail"]


def write_sagemaker_model(path: Path) -> Path:
    model = files_of_model(2)
    shapes = json.dumps([{"name": "data", "shape": [4, FEATURES]}]).encode()
    files = {
        "model-symbol.json": model["net-symbol.json"],
        "model-0000.params": model["net-0003.params"],
        "model-shapes.json": shapes,
        "code/inference.py": b"raise SystemExit('a handler is never run')",
    }
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def test_a_model_of_sagemaker_is_served(client: Client, folder: Path, tmp_path: Path) -> None:
    path = write_sagemaker_model(tmp_path / "model.tar.gz")
    with pytest.raises(ClientError, match="the module's name beside the archive"):
        client.create_from_archive(path)
    module = client.create_from_archive(path, name="sage")
    assert module["bind"]["data_shapes"][0]["shape"] == [4, FEATURES]
    assert (
        "'code/inference.py' is Python code, which is never run" in module["archive"]["warnings"][0]
    )
    assert answer_of(client.predict("sage", data=EXAMPLES)) == 2
    shutil.copy(path, folder / "birds.tar.gz")
    (state,) = client.reload_models()
    assert (state["name"], state["state"]) == ("birds", "ready")
    assert answer_of(client.predict("birds", data=EXAMPLES)) == 2


def test_an_archive_is_not_accepted_as_a_checkpoint(client: Client, tmp_path: Path) -> None:
    path = write_archive(tmp_path / "digits.mar", files_of_model())
    client.create_from_archive(path)
    files = {"archive": ("digits.mar", path.read_bytes())}
    with pytest.raises(ClientError) as caught:
        client.request("POST", "/v1/modules/digits/checkpoints", files=files)
    assert caught.value.status == 422
    assert "POST /v1/modules makes a module of one" in caught.value.problem["detail"]


def test_archives_in_the_models_folder(
    client: Client, folder: Path, tmp_path: Path, data_dir: Path
) -> None:
    shutil.copy(ARCHIVES / "tiny-1.0.mar", folder / "tiny.mar")
    write_archive(folder / "digits.model", files_of_model(2))
    write_model(folder / "net", 1)
    states = {one["name"]: one for one in client.reload_models()}
    assert states.keys() == {"tiny", "digits", "net"}
    assert {one["state"] for one in states.values()} == {"ready"}
    assert states["digits"]["epochs"] == [3]
    assert "'service:handle' is Python code" in states["digits"]["warnings"][0]
    assert states["net"]["warnings"] == []
    assert best_of(client, "tiny", picture(9, 9))[0] == "n02110958 pug"
    assert answer_of(client.predict("digits", data=EXAMPLES)) == 2
    assert client.module("digits")["archive"]["model"] == "digits"
    assert list((data_dir / "uploads").iterdir()) == []
    # Replaced as a whole.
    shutil.copy(write_archive(tmp_path / "a.mar", files_of_model(0)), folder / "digits.model")
    client.reload_models()
    assert answer_of(client.predict("digits", data=EXAMPLES)) == 0
    # Broken: the old model stays in service.
    (folder / "digits.model").write_bytes(b"PK\x03\x04")
    (state,) = [one for one in client.reload_models() if one["name"] == "digits"]
    assert state["state"] == "ready"
    assert "archive" in state["reason"]
    assert answer_of(client.predict("digits", data=EXAMPLES)) == 0
    # Two with the same name.
    write_archive(folder / "digits.model", files_of_model(0))
    write_model(folder / "digits", 1)
    (state,) = [one for one in client.reload_models() if one["name"] == "digits"]
    assert "got digits, digits.model, expected one folder or archive" in state["reason"]
    (folder / "digits.model").unlink()
    client.reload_models()
    assert answer_of(client.predict("digits", data=EXAMPLES)) == 1
