"""What the README shows works when it is pasted."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import core as mx
from app.client import Client
from app.client.local_server import running_server
from app.demo.tour import LENET, MNIST
from served.processes import ENVIRONMENT
from served.recurrent import FEATURES, FUSED, fused

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()


def blocks(heading: str, language: str) -> list[str]:
    """Return the code blocks of a language in a section."""
    section = README.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


def paste(script: str, url: str, folder: Path, cwd: Path = MNIST.parent) -> str:
    """Run a block of shell commands against a server; return what they print."""
    script = (
        script.replace("/tmp/", f"{folder}/")
        .replace("path/to/my", "my")
        .replace("http://127.0.0.1:8000", url)
        .replace("curl ", "curl --silent --show-error --fail-with-body ")
        .replace(".venv/bin/modserve", f"{sys.executable} -m app")
        .replace("../../../.venv/bin/python", sys.executable)
    )
    result = subprocess.run(
        ["bash", "-ec", script],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, f"{script}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_tour(tmp_path: Path) -> None:
    make, follow, use, versions, wrong = blocks("A tour over REST", "bash")
    make = make.replace("cd app/demo/data\n", "").replace('"epochs": 12', '"epochs": 2')
    use = use.replace("/12/", "/2/").replace("lenet-0012", "lenet-0002")
    versions = re.sub(r"\b1([12])\b", r"\1", versions)  # of a fit of two epochs
    with running_server(tmp_path / "server", environment=ENVIRONMENT) as server:
        ready = paste("curl http://127.0.0.1:8000/readyz", server.url, tmp_path)
        assert ready == '{"status":"ready","executors":{"cpu(0)":"ready"},"warnings":[]}'
        assert '"status":"queued"' in paste(make, server.url, tmp_path)
        assert "event: succeeded" in paste(follow, server.url, tmp_path)
        answer = paste(use, server.url, tmp_path)
        assert (tmp_path / "lenet-0002.params").stat().st_size > 1_000_000
        (outputs,) = json.loads(answer[answer.rindex('{"outputs"') :])["outputs"].values()
        assert np.shape(outputs["data"]) == (3, 10)
        answer = paste(versions, server.url, tmp_path)
        assert '"version":"2"' in answer[answer.rindex('{"outputs"') :]
        with pytest.raises(AssertionError) as refusal:
            paste(wrong, server.url, tmp_path)
        assert all(text in str(refusal.value) for text in ('"status":422', "invalid_shape", "'c1'"))


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_model_of_your_own(tmp_path: Path) -> None:
    symbol = mx.sym.load(str(LENET))
    module = mx.mod.Module(symbol)
    module.bind([("data", (1, 1, 28, 28))], [("softmax_label", (1,))])
    module.init_params(mx.init.Xavier())
    module.save_checkpoint(str(tmp_path / "my"), 10)
    examine, serve, tune = blocks("A model of your own", "bash")
    with running_server(tmp_path / "server", environment=ENVIRONMENT) as server:
        found = paste(examine, server.url, tmp_path, cwd=tmp_path)
        assert "It loads, binds and runs." in found
        answers = paste(serve, server.url, tmp_path, cwd=tmp_path)
        assert json.loads(answers[answers.rindex('{"name":"my"') :])["stage"] == "initialized"
        made = json.loads(paste(tune, server.url, tmp_path, cwd=tmp_path))
        assert made["origin"]["head"]["num_hidden"] == 5


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_clients_of_the_inference_protocol(tmp_path: Path) -> None:
    (ask,) = blocks("With clients of Triton and KServe", "bash")
    (script,) = blocks("With clients of Triton and KServe", "python")
    with (
        running_server(tmp_path / "server", environment=ENVIRONMENT) as server,
        Client(server.url) as client,
    ):
        client.create_module("lenet", LENET.read_text())
        client.bind("lenet", [{"name": "data", "shape": [1, 1, 28, 28]}], for_training=False)
        client.init_params("lenet", "xavier", seed=1)
        answers = paste(ask.replace("python3", sys.executable), server.url, tmp_path)
        assert '"inputs":[{"name":"data","datatype":"FP32","shape":[-1,1,28,28]}]' in answers
        assert '"datatype":"BYTES","shape":[1,3]' in answers
        assert '"inference_count":1' in answers
        pytest.importorskip("tritonclient.http")
        printed = run_python(
            script.replace("http://", "").replace(
                "127.0.0.1:8000", server.url.removeprefix("http://")
            ),
            tmp_path,
        )
        assert printed.startswith("[[")


LOAD = "import numpy as np\nimages, labels = np.load('digits.npz').values()\n"


def run_python(script: str, folder: Path) -> str:
    """Run a script in a folder with the demo's images and labels at hand; return what it prints."""
    with np.load(MNIST) as digits:
        images = digits["train_images"].reshape(-1, 1, 28, 28).astype(np.float32) / 255
        np.savez(folder / "digits.npz", images=images, labels=digits["train_labels"])
    result = subprocess.run(
        [sys.executable, "-c", LOAD + script],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_script_in_python(tmp_path: Path) -> None:
    script, _, _ = blocks("In Python", "python")
    (tmp_path / LENET.name).write_text(LENET.read_text())
    run_python(script.replace("num_epoch=12", "num_epoch=1"), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} >= {
        "lenet-symbol.json",
        "lenet-0012.params",
        "lenet-0012.states",
    }


def test_remote_module_in_python(tmp_path: Path) -> None:
    local, _, remote = blocks("In Python", "python")
    (tmp_path / LENET.name).write_text(LENET.read_text())
    with running_server(tmp_path / "server", environment=ENVIRONMENT) as server:
        script = (local + remote).replace("num_epoch=12", "num_epoch=1")
        run_python(script.replace("http://127.0.0.1:8000", server.url), tmp_path)
        with Client(server.url) as client:
            assert [one["tag"] for one in client.checkpoints("lenet-2")] == ["12"]


def test_client_in_python(tmp_path: Path) -> None:
    _, script, _ = blocks("In Python", "python")
    shapes = [{"name": "data", "shape": [64, 1, 28, 28]}]
    with (
        running_server(tmp_path / "server", environment=ENVIRONMENT) as server,
        Client(server.url) as client,
    ):
        client.create_module("lenet", LENET.read_text())
        client.bind("lenet", shapes)
        client.init_params("lenet", "xavier", seed=1)
        printed = run_python(script.replace("http://127.0.0.1:8000", server.url), tmp_path)
    assert re.fullmatch(r"\[\d \d \d\]\n", printed)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_sequences(tmp_path: Path) -> None:
    symbol = fused("gru")
    data = np.random.default_rng(0).random((9, 1, FEATURES), "f")
    for position, name in enumerate(("first", "second", "last")):
        np.save(tmp_path / f"{name}.npy", data[3 * position :][:3])
    (script,) = blocks("Sequences, a part at a time", "bash")
    with running_server(tmp_path / "server", environment=ENVIRONMENT) as server:
        with Client(server.url) as client:
            client.create_module(
                "speech", symbol.tojson(), label_names=[], state_names=list(FUSED["gru"])
            )
            described = {"name": "data", "shape": [3, 1, FEATURES], "layout": "TNC"}
            client.bind("speech", [described], for_training=False)
            client.init_params("speech", "uniform", seed=1)
        answers = paste(script, server.url, tmp_path, tmp_path)
        assert answers.count('"rnn_output"') == 3
