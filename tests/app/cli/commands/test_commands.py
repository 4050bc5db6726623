"""Commands that talk to a server: output, files and exit status."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file
from typer.testing import CliRunner, Result

import core as mx
from app.cli.main import app
from app.client import Client
from app.client.local_server import ServerProcess, running_server
from core.ndarray import load
from served.keys import add_key
from served.onnx_models import run_onnx
from served.perceptron import BATCH, perceptron
from served.pictures import picture
from served.processes import ENVIRONMENT, wait_until
from served.trainings import examples


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running_server(tmp_path_factory.mktemp("server"), environment=ENVIRONMENT) as one:
        yield one


@pytest.fixture
def ask(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Run a command against an initially empty server."""
    monkeypatch.setenv("MODSERVE_URL", server.url)

    def run(*arguments: str | Path, status: int = 0) -> Result:
        result = CliRunner().invoke(app, [str(one) for one in arguments])
        assert result.exit_code == status, result.output
        return result

    with Client(server.url) as client:
        yield run
        for job in client.jobs():
            if job["status"] not in ("succeeded", "failed", "cancelled"):
                client.cancel(job["id"])
                client.wait(job["id"])
        for module in client.modules():
            client.delete_module(module["name"])


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A file of training examples."""
    path = tmp_path / "toy.npz"
    np.savez(path, **examples())
    return path


@pytest.fixture
def trained(ask: Any, server: ServerProcess, toy: Path) -> Any:
    """``ask``, after module ``net`` has trained for two epochs."""
    with Client(server.url) as client:
        client.create_module("net", perceptron().tojson())
    result = ask(
        *("train", "net", toy, "--epochs", 2, "--batch-size", BATCH, "--optimizer", "sgd"),
        *("-o", "learning_rate=0.05", "--initializer", "xavier"),
    )
    assert re.search(r"^epoch 1 train +accuracy 0\.\d+ +loss", result.stdout, re.MULTILINE)
    assert re.search(r"^epoch 2 train ", result.stdout, re.MULTILINE)
    assert result.stdout.rstrip().endswith("succeeded")
    return ask


def test_jobs_are_listed_and_deleted(trained: Any) -> None:
    lines = trained("jobs", "ls").stdout.splitlines()
    assert lines[0].split() == [
        "JOB",
        "KIND",
        "MODULE",
        "STATUS",
        "ATTEMPT",
        "PROGRESS",
        "METRICS",
        "AGE",
    ]
    number, kind, module, status, *_ = lines[1].split()
    assert (kind, module, status) == ("fit", "net", "succeeded")
    assert "epoch 2/2" in lines[1]
    (row,) = json.loads(trained("jobs", "ls", "--module", "net", "--json").stdout)
    assert row["id"] == int(number)
    assert json.loads(trained("jobs", "show", number, "--json").stdout)["status"] == "succeeded"
    events = trained("jobs", "watch", number, "--json").stdout.splitlines()
    assert json.loads(events[-1])["type"] == "succeeded"
    trained("jobs", "rm", number)
    assert "404" not in trained("jobs", "show", number, status=3).stderr.split()


def test_a_job_is_paused_resumed_and_cancelled(ask: Any, server: ServerProcess, toy: Path) -> None:
    with Client(server.url) as client:
        client.create_module("net", perceptron().tojson())
    started = ask(
        *("train", "net", toy, "--epochs", 100000, "--batch-size", BATCH),
        *("--optimizer", "sgd", "--detach"),
    )
    number = started.stdout.strip()
    assert ask("jobs", "pause", number).stdout
    with Client(server.url) as client:
        wait_until(lambda: client.job(int(number))["status"] == "paused", "the pause")
    assert ask("jobs", "resume", number).stdout.splitlines()[1].split()[0] == number
    ask("jobs", "cancel", number)
    ask("jobs", "watch", number, status=1)
    assert ask("jobs", "retry", number, "--json").stdout
    ask("jobs", "cancel", number)


def test_modules_are_listed_and_deleted(trained: Any) -> None:
    lines = trained("modules", "ls").stdout.splitlines()
    assert lines[1].split()[:3] == ["net", "ready", "ready"]
    assert "data:8x6" in lines[1]
    assert json.loads(trained("modules", "show", "net", "--json").stdout)["name"] == "net"
    trained("modules", "rm", "net")
    assert len(trained("modules", "ls").stdout.splitlines()) == 1


def test_a_model_added_by_prefix_or_folder_predicts(trained: Any, tmp_path: Path) -> None:
    trained("checkpoints", "export", "net", "--out", tmp_path)
    for name, named in (("one", tmp_path / "net"), ("two", tmp_path)):
        added = trained("modules", "add", name, named)
        assert "data:1x6" in added.stdout
        assert "labels: softmax_label 1" in added.stderr
    rows = tmp_path / "rows.npy"
    np.save(rows, examples()["data"][:2].astype("f"))
    assert "softmax_output float32 2x" in trained("predict", "two", rows).stdout
    lacking = trained("modules", "add", "three", tmp_path / "nat", status=2)
    assert "there is no" in lacking.stderr
    assert "nat-symbol.json" in lacking.stderr
    mixed = trained("modules", "add", "three", tmp_path / "net-symbol.json", tmp_path, status=2)
    assert "is not a file" in mixed.stderr


def test_a_model_with_unknown_shapes_is_bound_by_hand(ask: Any, tmp_path: Path) -> None:
    x = mx.sym.sum(mx.sym.Variable("odd") * 2, axis=(1, 2))
    net = mx.mod.Module(
        mx.sym.broadcast_mul(x, mx.sym.Variable("scale_weight", shape=(1, 1))), ["odd"], []
    )
    net.bind([("odd", (2, 3, 4, 1))], for_training=False)
    net.init_params(arg_params={"scale_weight": mx.nd.ones((1, 1))})
    net.save_checkpoint(str(tmp_path / "odd"), 1)
    added = ask("modules", "add", "odd", tmp_path)
    assert "modserve modules bind odd --shape odd=1,…" in added.stderr
    assert "odd=1;x" in ask("modules", "bind", "odd", "--shape", "odd=1;x", status=2).stderr
    bound = ask("modules", "bind", "odd", "--shape", "odd=2,3,4,1")
    assert "initialized" in bound.stdout
    ask("modules", "rm", "odd")
    assert "odd:2x3x4x1" in ask("modules", "add", "odd", tmp_path, "--shape", "odd=2,3,4,1").stdout


def test_a_checkpoint_is_downloaded_and_uploaded(trained: Any, tmp_path: Path) -> None:
    rows = json.loads(trained("checkpoints", "ls", "net", "--json").stdout)
    assert [row["tag"] for row in rows] == ["2", "1"]
    files = trained("checkpoints", "export", "net", "--out", tmp_path).stdout.splitlines()
    params = next(Path(one) for one in files if one.endswith(".params"))
    written = load(str(params))
    assert isinstance(written, dict)
    for form, read in (("safetensors", load_file), ("npz", np.load)):
        path = trained("checkpoints", "export", "net", "2", "--out", tmp_path, "--format", form)
        arrays = read(path.stdout.strip())
        assert {f"arg:{name}" for name in arrays} == set(written)
        for name in arrays:
            np.testing.assert_array_equal(arrays[name], written[f"arg:{name}"].asnumpy())
    trained("modules", "add", "copy", params, tmp_path / "net-symbol.json")
    moved = tmp_path / "net-0007.params"
    moved.write_bytes(params.read_bytes())
    assert trained("checkpoints", "import", "copy", moved, "--load").stdout
    assert json.loads(trained("modules", "show", "copy", "--json").stdout)["checkpoint"] == "7"


def test_a_checkpoint_is_downloaded_as_an_onnx_model(
    trained: Any, server: ServerProcess, tmp_path: Path
) -> None:
    arguments = ("checkpoints", "export", "net", "--out", tmp_path, "--format", "onnx")
    path = Path(trained(*arguments).stdout.strip())
    assert path == tmp_path / "net-2.onnx"
    rows = examples()["data"][:5].astype("f")
    with Client(server.url) as client:
        expected = client.predict("net", data=rows)["softmax_output"]
    (got,) = run_onnx(onnx.load(path), {"data": rows})
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_what_onnx_cannot_express_is_one_line(
    ask: Any, server: ServerProcess, tmp_path: Path
) -> None:
    pooled = mx.sym.Pooling(
        mx.sym.Variable("data"), kernel=(2, 2), pool_type="lp", p_value=2, name="pool"
    )
    net = mx.sym.FullyConnected(pooled, num_hidden=2, name="fc")
    with Client(server.url) as client:
        client.create_module("net", net.tojson(), label_names=[])
        client.bind("net", [{"name": "data", "shape": [2, 1, 4, 4]}])
        client.init_params("net", initializer="xavier")
        client.save_checkpoint("net", 1)
    arguments = ("checkpoints", "export", "net", "--out", tmp_path, "--format", "onnx")
    assert "Pooling 'pool' cannot be written as ONNX" in ask(*arguments, status=3).stderr


def test_predictions_are_printed_or_written(
    trained: Any, server: ServerProcess, tmp_path: Path
) -> None:
    rows = examples()["data"][:3].astype("f")
    np.save(tmp_path / "rows.npy", rows)
    np.savez(tmp_path / "rows.npz", data=rows)
    with Client(server.url) as client:
        expected = client.predict("net", data=rows)["softmax_output"]
    shown = trained("predict", "net", tmp_path / "rows.npy", "--json")
    np.testing.assert_allclose(json.loads(shown.stdout)["softmax_output"], expected, rtol=1e-6)
    out = tmp_path / "out.npz"
    trained("predict", "net", tmp_path / "rows.npz", "--out", out)
    np.testing.assert_array_equal(np.load(out)["softmax_output"], expected)
    ranked = trained("predict", "net", tmp_path / "rows.npy", "--top-k", 1).stdout
    best = [int(line.split()[1]) for line in ranked.splitlines() if line.startswith(" ")]
    assert best == expected.argmax(axis=1).tolist()
    assert "2 files" in trained("predict", "net", *[tmp_path / "rows.npy"] * 2, status=3).stderr
    of_version = ("predict", "net", tmp_path / "rows.npy", "--top-k", 1, "--version")
    assert trained(*of_version, "live").stdout == ranked
    assert "version '99' does not exist" in trained(*of_version, 99, status=3).stderr


def test_the_files_of_a_bucketing_module_make_one_model(ask: Any, tmp_path: Path) -> None:
    def symbol_of(key: int) -> Any:
        data = mx.sym.slice_axis(mx.sym.Variable("data"), axis=1, begin=0, end=key)
        net = mx.sym.FullyConnected(
            mx.sym.mean(data, axis=1, keepdims=True), num_hidden=2, name="fc"
        )
        return mx.sym.SoftmaxOutput(net, name="softmax"), ["data"], ["softmax_label"]

    module = mx.mod.BucketingModule(symbol_of, 10)
    module.bind([("data", (2, 10))], [("softmax_label", (2,))])
    module.init_params()
    module.switch_bucket(5, [("data", (2, 5))], [("softmax_label", (2,))])
    module.save_checkpoint(str(tmp_path / "means"), 3)
    files = sorted(tmp_path.iterdir())
    assert {one.name for one in files} >= {"means-5-symbol.json", "means.buckets"}
    made = json.loads(ask("modules", "add", "means", *files, "--json").stdout)
    assert (made["kind"], made["default_bucket_key"]) == ("bucketing", "10")
    assert sorted(made["bucket_keys"]) == ["10", "5"]
    ask("modules", "rm", "means")


def test_a_folder_of_images_becomes_a_dataset(ask: Any, tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").write_bytes(picture(9, 7))
    create = ("datasets", "create", "pets", "--images", tmp_path)
    made = json.loads(ask(*create, "--size", "4,6", "--mean", "120,110,99", "--json").stdout)
    assert (made["classes"], made["arrays"][0]["shape"]) == (["cat", "dog"], [2, 3, 4, 6])
    (tmp_path / "dog" / "2.png").write_bytes(b"no image")
    assert "dog/2.png" in ask(*create, "--size", 4, status=3).stderr
    ask("datasets", "rm", "pets")


def test_datasets_are_uploaded_shown_and_deleted(ask: Any, toy: Path) -> None:
    assert "data:400x6" in ask("datasets", "add", toy, "--name", "other").stdout
    assert "other" in ask("datasets", "ls", "--prefix", "oth").stdout
    assert json.loads(ask("datasets", "preview", "other", "--rows", 1, "--json").stdout)
    ask("datasets", "rm", "other")
    assert "does not exist" in ask("datasets", "preview", "other", status=3).stderr


def test_a_refusal_is_one_line(ask: Any, toy: Path) -> None:
    error = ask("train", "nothing", toy, "--optimizer", "sgd", status=3).stderr
    assert error.startswith("Error: ")
    assert "nothing" in error
    assert "Traceback" not in error


def test_a_missing_server_is_one_line(monkeypatch: pytest.MonkeyPatch, ask: Any) -> None:
    monkeypatch.setenv("MODSERVE_URL", "http://127.0.0.1:9")
    assert "modserve serve" in ask("jobs", "ls", status=3).stderr


def test_options_are_checked(ask: Any, toy: Path) -> None:
    ask("train", "net", toy, "-o", "learning_rate=1", status=2)
    ask("train", "net", toy, "--optimizer", "sgd", "-o", "learning_rate", status=2)


def test_a_key_is_sent() -> None:
    seen: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers["Authorization"])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"items": []}')

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        result = CliRunner().invoke(app, ["jobs", "ls", "--key", "secret", "--url", url])
        thread.join()
    assert result.exit_code == 0, result.output
    assert seen == ["Bearer secret"]


@pytest.mark.parametrize("is_in_detail", [False, True])
def test_a_hint_is_printed_once(is_in_detail: bool) -> None:
    """Problems repeat it for each faulty field; the message may contain it already."""
    hint = "set num_group or fix data_shapes"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            detail = f"data: got 4; {hint}" if is_in_detail else "data: got 4"
            row = {"field": "data", "got": "4", "expected": "3", "hint": hint}
            body = json.dumps({"status": 422, "detail": detail, "errors": [row, row]}).encode()
            self.send_response(422)
            self.send_header("Content-Type", "application/problem+json")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Keep stderr as the command leaves it."""

    results = []
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        for flags in ([], ["--json"]):
            thread = threading.Thread(target=server.handle_request)
            thread.start()
            results.append(CliRunner().invoke(app, ["jobs", "ls", "--url", url, *flags]))
            thread.join()
    plain, as_json = results
    assert plain.exit_code == as_json.exit_code == 3
    assert plain.stderr.count(hint) == 1
    error = json.loads(as_json.stderr)["error"]
    assert error.get("hint") == (None if is_in_detail else hint)
    assert [row["hint"] for row in error["errors"]] == [hint, hint]


def test_the_error_says_where_the_key_came_from(tmp_path: Path) -> None:
    add_key(tmp_path, "shell", "admin")
    with running_server(tmp_path, environment=ENVIRONMENT) as server:
        for flags in ([], ["--key", "wrong"]):
            refused = CliRunner().invoke(app, ["jobs", "ls", "--url", server.url, *flags])
            assert refused.exit_code == 3
            assert "give a key with --key or in MODSERVE_API_KEY" in refused.stderr
