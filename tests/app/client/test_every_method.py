"""Every method of both clients against a running server, which covers all routes under /v1."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import core as mx
from app.client import Client, NotFound
from app.client.client import Calls
from app.client.local_server import ServerProcess, running_server
from app.client.request import AsJson, Items, Pages, Request
from served.archives import ARCHIVES, files_of_model
from served.declared import declared_path
from served.document import openapi_document
from served.either_client import KINDS, EitherClient, either
from served.model_folders import write_model
from served.network import BATCH, BIND, CLASSES, FEATURES, NETWORK, examples_npz, fit_body
from served.padded_sums import network, shapes
from served.pictures import picture
from served.processes import ENVIRONMENT
from served.recurrent import fused, links

FORMS = {
    (verb.upper(), path): operation
    for path, operations in openapi_document()["paths"].items()
    if path.startswith("/v1/")
    for verb, operation in operations.items()
    if verb != "parameters"
}
METHODS = {name for name in dir(Calls) if not name.startswith("_")} - {"with_options"}
WORDS = ["<unk>", "<pad>", "the", "cat", "sat"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder the server may read, with the files sent to it."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "examples.npz").write_bytes(examples_npz())
    write_model(folder / "models" / "found", 1)
    for name, content in files_of_model().items():
        (folder / name).write_bytes(content)
    (folder / "cat.png").write_bytes(picture(8, 6))
    for name in ("cat", "dog"):
        (folder / "pictures" / name).mkdir(parents=True)
        (folder / "pictures" / name / "1.jpg").write_bytes(picture(8, 6, "JPEG"))
    (folder / "words.txt").write_text("\n".join(WORDS))
    return folder


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with a models folder and a folder for datasets left in place."""
    settings = {
        "MODSERVE_MODELS_DIR": str(folder / "models"),
        "MODSERVE_DATASET_FOLDERS": json.dumps([str(folder)]),
    }
    data_dir = tmp_path_factory.mktemp("data")
    with running_server(data_dir, environment=ENVIRONMENT | settings) as server:
        yield server


@pytest.mark.parametrize("kind", KINDS)
async def test_every_method(server: ServerProcess, folder: Path, tmp_path: Path, kind: str) -> None:
    async with either(kind, server.url) as client:
        await ask_the_server(client)
        await use_datasets(client, folder, tmp_path)
        await use_modules(client, folder)
        await use_steps(client)
        await use_checkpoints(client, folder, tmp_path)
        await use_versions(client)
        await use_jobs(client)
        await use_texts_and_images(client, folder)
        await use_lengths(client)
        await use_sequences(client)
        for module in await client.modules(prefix="my-"):
            await client.delete_module(module["name"])
        await client.delete_dataset("examples")
    assert client.called == METHODS
    asked = set()
    for call, answers in client.calls:
        for answer in answers:
            form = (answer.request.method, declared_path(answer.request.url.path))
            asked.add(form)
            if answer.is_success and form in FORMS:
                check_type(call, FORMS[form])
    assert asked >= FORMS.keys(), FORMS.keys() - asked


def check_type(call: Any, operation: Any) -> None:
    """Fail where a call's return type differs from what the document declares."""
    if isinstance(call, Pages):
        kind, is_list = call.item, True
    elif isinstance(call, Request) and isinstance(call.reads, AsJson | Items):
        kind, is_list = call.reads.kind, isinstance(call.reads, Items)
    else:
        return
    answers = (operation["responses"].get(code) for code in ("200", "201", "202"))
    schema = next(one for one in answers if one)["content"]["application/json"]["schema"]
    name = f"PageView_{kind.__name__}_" if is_list else kind.__name__
    if get_args(kind):
        assert name in ("dict", "list")
    else:
        named = [one.get("$ref", "") for one in (schema, *schema.get("anyOf", ()))]
        assert f"#/components/schemas/{name}" in named, (operation["operationId"], named)


async def ask_the_server(client: EitherClient) -> None:
    assert await client.is_ready()
    assert await client.wait_until_ready(timeout_seconds=5)
    answer = await client.request("GET", "/v1/modules", params={"limit": 1})
    assert answer.json()["items"]
    (executor,) = await client.executors()
    assert executor["alive"]
    assert [model["name"] for model in await client.models()] == ["found"]
    assert (await client.reload_models())[0]["state"] == "ready"
    codes = await client.error_codes()
    first = await client.error_code(codes[0]["code"])
    assert first == codes[0]


async def use_datasets(client: EitherClient, folder: Path, tmp_path: Path) -> None:
    file, sent, got = folder / "examples.npz", [], []
    size = file.stat().st_size
    await client.put_dataset("examples", file, progress=lambda *part: sent.append(part))
    assert sent[-1] == (size, size)
    added = await client.add_dataset("there", str(file))
    assert added["path"] == str(file)
    assert (await client.dataset("examples"))["sha256"] == added["sha256"]
    assert {one["name"] for one in await client.datasets(kind=["npz"])} == {"examples", "there"}
    preview = await client.preview_dataset("examples", rows=2)
    assert len(preview["data"]) == 2
    pictures = folder / "pictures"
    made = await client.put_images("pictures", pictures, size=(4, 6), color="gray")
    assert made["classes"] == ["cat", "dog"]
    assert made["arrays"][0]["shape"] == [2, 1, 4, 6]
    await client.delete_dataset("pictures")
    target = tmp_path / "copy.npz"
    await client.get_dataset_file("examples", target, progress=lambda *part: got.append(part))
    assert target.read_bytes() == file.read_bytes()
    assert got[-1] == (size, size)
    assert list(tmp_path.iterdir()) == [target]
    await client.delete_dataset("there")


async def use_modules(client: EitherClient, folder: Path) -> None:
    files, sent = [folder / "net-symbol.json", folder / "net-0003.params"], []
    made = await client.create_from_files(
        "my-files", files, progress=lambda *part: sent.append(part)
    )
    assert (made["stage"], sent[-1][0]) == ("created", sent[-1][1])
    await client.create_from_archive(ARCHIVES / "tiny-1.0.mar", name="my-archive")
    await client.create_from_module("my-copy", "my-files")
    await client.create_module("my-net", json.dumps(NETWORK))
    bound = await client.bind("my-net", **BIND)
    assert bound["bind"]["data_shapes"][0]["shape"] == [BATCH, FEATURES]
    await client.reshape("my-net", **BIND)
    ready = await client.init_params("my-net", "xavier", seed=1)
    assert (ready["stage"], ready["durable"]) == ("initialized", True)
    params = await client.params("my-net")
    params["fc_bias"] += 1
    await client.set_params("my-net", params)
    await client.set_params("my-net", {"fc_bias": params["fc_bias"]}, allow_missing=True)
    bias = await client.param("my-net", "fc_bias")
    np.testing.assert_array_equal(bias, params["fc_bias"])
    assert (await client.symbol("my-net"))["heads"] == NETWORK["heads"]
    names = {one["name"] for one in await client.modules(prefix="my-", stage="initialized")}
    assert names == {"my-archive", "my-net"}
    with pytest.raises(NotFound) as refused:
        await client.module("my-other")
    assert refused.value.code == "not_found"


async def use_steps(client: EitherClient) -> None:
    inputs = {"data": np.ones((BATCH, FEATURES)), "softmax_label": [0.0] * BATCH}
    made = await client.init_optimizer("my-net", "sgd", learning_rate=0.1)
    assert made["stage"] == "ready"
    assert (await client.set_learning_rate("my-net", 0.5))["stage"] == "ready"
    assert (await client.optimizer("my-net"))["learning_rate"] == 0.5
    states = await client.optimizer_states("my-net")
    await client.set_optimizer_states("my-net", states)
    first = await client.forward_backward("my-net", inputs, sequence=1, monitor="fc*")
    assert {one["of"] for one in await client.statistics("my-net", "fc*")} > {"output"}
    again = await client.outputs("my-net")
    np.testing.assert_array_equal(first["softmax_output"], again["softmax_output"])
    await client.forward("my-net", inputs, is_train=True, sequence=2)
    assert (await client.backward("my-net", sequence=3))["sequence"] == 3
    assert (await client.update("my-net", sequence=4))["num_update"] == 1
    after = await client.forward("my-net", inputs, is_train=False)
    assert after["softmax_output"][0, 0] > first["softmax_output"][0, 0]
    grads = {"data_shapes": [{"name": "data", "shape": [1, 2]}], "inputs_need_grad": True}
    graph = await client.graph("my-net")
    assert [one["name"] for one in graph["nodes"]][-1] == "softmax"
    assert (await client.profile("my-net", runs=1))["steps"]
    summary = await client.param_summary("my-net", "live")
    assert {one["name"] for one in summary["items"]} == {"fc_weight", "fc_bias"}
    square = mx.sym.Variable("data") * mx.sym.Variable("state", shape=(1, 2))
    await client.create_module("my-square", square.tojson(), state_names=["state"])
    await client.bind("my-square", **grads)
    await client.init_params("my-square")
    await client.set_states("my-square", value=3.0)
    assert (await client.states("my-square"))["state"].tolist() == [[3, 3]]
    await client.set_states("my-square", {"state": [[3, 4]]})
    out = await client.forward("my-square", {"data": [[5, 6]]}, is_train=True)
    (name,) = out
    await client.backward("my-square", {name: [[1, 2]]})
    assert (await client.input_grads("my-square"))["data"].tolist() == [[3, 8]]


async def use_checkpoints(client: EitherClient, folder: Path, tmp_path: Path) -> None:
    saved = await client.save_checkpoint("my-net", 1)
    assert saved["tag"] == "1"
    assert (await client.checkpoint("my-net", "1"))["files"] == saved["files"]
    name = next(one for one in saved["files"] if one.endswith(".params"))
    target, got = tmp_path / "net-0007.params", []
    await client.get_checkpoint_file(
        "my-net", 1, name, target, progress=lambda *part: got.append(part)
    )
    assert got[-1] == (target.stat().st_size, target.stat().st_size)
    assert await client.get_onnx("my-net", 1, tmp_path / "net.onnx") == []
    await client.put_checkpoint_file("my-net", 7, target)
    await client.add_checkpoint("my-net", [folder / "net-0003.params"])
    assert [one["tag"] for one in await client.checkpoints("my-net")] == ["7", "3", "1"]
    assert (await client.load("my-net", 7))["checkpoint"] == "7"
    await client.delete_checkpoint("my-net", "3")
    assert (await client.restore_module("my-net"))["state"] == "ready"


async def use_versions(client: EitherClient) -> None:
    examples = np.ones((2, FEATURES), "f")
    assert (await client.serving("my-net"))["max_delay_us"] >= 0
    changed = await client.set_serving("my-net", max_delay_us=5)
    assert changed["serving"]["max_delay_us"] == 5
    await client.warm_up_module("my-net")
    assert (await client.promote("my-net", 1))["promoted"] == "1"
    assert (await client.promote("my-net", 7))["promoted"] == "7"
    assert (await client.roll_back("my-net"))["promoted"] == "1"
    labelled = await client.set_version_label("my-net", "stable", 7)
    assert labelled["labels"] == {"stable": 7}
    tried = await client.set_canary("my-net", 7, 0.5)
    assert tried["canary"] == {"version": 7, "weight": 0.5}
    await client.remove_canary("my-net")
    outputs = await client.predict_with_version("my-net", "stable", data=examples)
    assert outputs["softmax_output"].shape == (2, CLASSES)
    await client.remove_version_label("my-net", "stable")
    versions = await client.versions("my-net")
    assert [one["version"] for one in versions["items"]] == [7, 1]
    await client.set_labels("my-net", "softmax_output", ["cat", "dog", "bird"])
    assert await client.labels("my-net", "softmax_output") == ["cat", "dog", "bird"]
    ranked = await client.predict_top_k("my-net", 1, data=examples)
    assert ranked["softmax_output"][0][0]["label"] in ("cat", "dog", "bird")
    of_first = await client.predict_top_k("my-net", 1, 1, data=examples)
    assert of_first["softmax_output"][0][0]["label"] in ("cat", "dog", "bird")
    await client.delete_labels("my-net", "softmax_output")


async def use_jobs(client: EitherClient) -> None:
    preview = await client.preview_fit("my-net", dataset="examples")
    assert preview["inputs"]["data"]["names"] == ["data"]
    job = await client.fit("my-net", **fit_body(monitor={"interval": 2}))
    types = [event["type"] async for event in client.each("job_events", job["id"])]
    assert (types[0], types[-1]) == ("submitted", "succeeded")
    ended = await client.wait(job["id"])
    assert ended["result"]["epochs"] == 2
    assert len(await client.job_metrics(job["id"])) == 2
    assert (await client.job_series(job["id"], points=5))["series"] == "loss"
    drawn = await client.job_histograms(job["id"], "fc_weight", of="gradient")
    assert drawn["array"]["name"] == "fc_weight"
    score = await client.score("my-net", dataset="examples", batch_size=BATCH)
    assert (await client.wait(score["id"], timeout_seconds=60))["status"] == "succeeded"
    predict = {"dataset": "examples", "batch_size": BATCH, "output": "answers"}
    predicted = await client.predict_dataset("my-net", **predict, limits={"priority": 3})
    assert (await client.wait(predicted["id"]))["priority"] == 3
    assert {one["kind"] for one in await client.jobs(module="my-net")} == {
        "fit",
        "score",
        "predict",
    }
    await client.delete_dataset("answers")
    long = (await client.fit("my-net", **fit_body(epochs=100_000)))["id"]
    with pytest.raises(TimeoutError, match="the stream did not end"):
        await client.wait(long, timeout_seconds=0.05)
    await client.pause(long)
    await reach(client, long, "paused")
    await client.resume(long)
    await client.cancel(long)
    assert (await client.wait(long))["status"] == "cancelled"
    await client.retry(long)
    await client.cancel(long)
    assert (await client.wait(long))["status"] == "cancelled"
    await client.delete_job(long)
    async for event in client.each("events", job=[job["id"]]):
        assert event["type"] == "submitted"
        break


async def reach(client: EitherClient, job: int, status: str) -> None:
    """Return once a job has reached a status."""
    async for event in client.each("job_events", job):
        if event["status"] == status:
            break
    assert (await client.job(job))["status"] == status


async def use_texts_and_images(client: EitherClient, folder: Path) -> None:
    cat = folder / "cat.png"
    names = {"label_names": []}
    await client.create_module("my-eye", mx.sym.Flatten(mx.sym.Variable("data")).tojson(), **names)
    shape = [{"name": "data", "shape": [2, 3, 6, 8]}]
    await client.bind("my-eye", shape, for_training=False)
    await client.init_params("my-eye")
    await client.set_transform("my-eye", "data", mean=[128], std=[64])
    assert (await client.transform("my-eye", "data"))["mean"] == [128]
    (seen,) = (await client.predict_images("my-eye", "data", cat, cat)).values()
    assert (seen.shape, seen[0].tolist()) == ((2, 144), seen[1].tolist())
    for asked in (cat, cat.read_bytes()):
        for outputs in (
            await client.predict("my-eye", asked),
            await client.predict("my-eye", data=asked),
            await client.predict("my-eye", data=[asked]),
        ):
            np.testing.assert_array_equal(next(iter(outputs.values())), seen[:1])
    ((best,),) = (await client.rank_images("my-eye", "data", 1, cat)).values()
    assert best[0]["index"] == seen[0].argmax()
    answer = await client.predict_file("my-eye", cat, top_k=1)
    assert next(iter(answer["outputs"].values()))[0][0]["index"] == seen[0].argmax()
    await client.delete_transform("my-eye", "data")
    ids = mx.sym.identity(mx.sym.Variable("data"), name="ids")
    await client.create_module("my-text", ids.tojson(), **names)
    await client.bind("my-text", [{"name": "data", "shape": [2, 4]}], for_training=False)
    await client.init_params("my-text")
    how = {"type": "text", "unknown": "<unk>", "padding": "<pad>"}
    await client.set_transform("my-text", "data", vocabulary=folder / "words.txt", **how)
    await client.set_transform("my-text", "data", vocabulary=WORDS, **how)
    for outputs in (
        await client.predict_texts("my-text", "data", "the cat sat"),
        await client.predict("my-text", "the cat sat"),
        await client.predict("my-text", data=["the cat sat"]),
    ):
        assert outputs["ids_output"].tolist() == [[2, 3, 4, 1]]


async def use_lengths(client: EitherClient) -> None:
    x = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=9, output_dim=4, name="embed")
    whole = mx.sym.FullyConnected(mx.sym.max(x, axis=1), num_hidden=2, name="whole")
    symbol = mx.sym.Group([mx.sym.softmax(x, name="each"), whole]).tojson()
    await client.create_module("my-words", symbol, buckets=[3, 5])
    shape = [{"name": "data", "shape": [2, None]}]
    await client.bind("my-words", shape, for_training=False)
    await client.init_params("my-words", seed=3)
    rows = [[1, 2, 3], [4, 5, 6, 7], [2]]
    for given in (rows, [np.array(row) for row in rows]):
        for outputs in (
            await client.predict("my-words", data=given),
            await client.predict("my-words", given),
        ):
            assert [len(one) for one in outputs["each_output"]] == [3, 4, 1]
            assert outputs["whole_output"].shape == (3, 2)
    for even in ([[1, 2, 3]], np.array([[1, 2, 3]])):
        alone = await client.predict("my-words", even)
        np.testing.assert_allclose(alone["each_output"][0], outputs["each_output"][0], rtol=1e-5)
    plan = await client.bucket_plan("my-words", 2)
    assert plan["examples"] > 0
    assert (await client.apply_bucket_plan("my-words", 2))["bound"] == plan["planned"]
    symbols = {length: network() for length in (4, 6)}
    names = {"data_names": ["data", "lengths"]}
    await client.create_bucketing_module("my-sums", symbols, 6, **names)
    await client.bind("my-sums", shapes(6), for_training=False)
    await client.bind_bucket("my-sums", 4, shapes(4))
    assert await client.buckets("my-sums") == ["6", "4"]


async def use_sequences(client: EitherClient) -> None:
    symbol = fused("gru")
    names = {"label_names": [], "state_names": ["h"]}
    await client.create_module("my-gru", symbol.tojson(), **names)
    shape = [{"name": "data", "shape": [4, 2, 3], "layout": "TNC"}]
    await client.bind("my-gru", shape, for_training=False)
    await client.init_params("my-gru", seed=7)
    await client.set_serving("my-gru", states=links(symbol, ("h",)))
    part = np.ones((4, 1, 3), "f")
    first = await client.predict_part("my-gru", "one", start=True, data=part)
    second = await client.predict_part("my-gru", "one", end=True, data=part)
    name = next(iter(first))
    assert not np.array_equal(first[name], second[name])


def test_methods_document_their_arguments_and_effects() -> None:
    with Client("http://test") as client:
        help_text = client.fit.__doc__
    assert help_text is not None
    assert help_text.startswith("Submit a training job.")
    for name in METHODS:
        assert getattr(Calls, name).__doc__, name
