"""``modserve doctor``: what it reports about sound and broken models."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import orjson
import pytest
from typer.testing import CliRunner

import core as mx
from app.cli.main import app


def save(folder: Path, symbol: mx.sym.Symbol, **shapes: tuple[int, ...]) -> str:
    """Save a module with random parameters; return its prefix."""
    module = mx.mod.Module(symbol, data_names=list(shapes), label_names=None)
    module.bind(list(shapes.items()), for_training=False)
    module.init_params(mx.init.Uniform())
    module.save_checkpoint(str(folder / "model"), 3)
    return str(folder / "model")


def convolutional() -> mx.sym.Symbol:
    x = mx.sym.Variable("data") / 255
    x = mx.sym.Convolution(x, kernel=(3, 3), num_filter=4, name="c1")
    x = mx.sym.Activation(x, act_type="relu")
    x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=2, name="fc")
    return mx.sym.softmax(x, name="out")


def ask(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["doctor", "--checkpoint", *arguments])
    return result.exit_code, result.output


@pytest.mark.parametrize("named", ["", "model", "model-symbol.json", "model-0003.params"])
def test_a_model_is_named_by_a_file_a_prefix_or_a_folder(tmp_path: Path, named: str) -> None:
    prefix = save(tmp_path, convolutional(), data=(2, 3, 12, 12))
    Path(f"{prefix}-0001.params").write_bytes(b"old")
    result = CliRunner().invoke(app, ["doctor", str(tmp_path / named)])
    assert result.exit_code == 0, result.output
    assert "model-0003.params" in result.output


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ([], "has no file like net-symbol.json"),
        (["eyes/net-symbol.json"], "eyes/net-symbol.json"),
        (["a-symbol.json", "b-symbol.json"], "several models; name one of"),
        (["a-0001.params"], "net.load_parameters(FILE), net.hybridize()"),
    ],
)
def test_paths_that_name_no_model_are_refused(tmp_path: Path, files: list[str], said: str) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    result = CliRunner().invoke(app, ["doctor", str(tmp_path)])
    assert (result.exit_code, said in result.output) == (2, True)


def test_a_missing_shape_is_not_an_error(tmp_path: Path) -> None:
    x = mx.sym.sum(mx.sym.Variable("odd") * 2, axis=(1, 2))
    x = mx.sym.broadcast_mul(x, mx.sym.Variable("scale_weight", shape=(1, 1)))
    prefix = save(tmp_path, x, odd=(2, 3, 4, 1))
    status, text = ask(prefix, "3")
    assert status == 3
    assert "? shapes: found none that fit the parameters, for odd" in text
    assert ask(prefix, "3", "--shape", "odd=2,3,4,1")[0] == 0


def ask_json(*arguments: str) -> dict:
    _, output = ask(*arguments, "--json")
    document = json.loads(output)
    document["findings"] = {one["step"]: one for one in document["findings"]}
    return document


@pytest.mark.parametrize("size", [12, 8, 41])
def test_a_sound_model(tmp_path: Path, size: int) -> None:
    prefix = save(tmp_path, convolutional(), data=(2, 3, size, size))
    status, text = ask(prefix, "3")
    assert status == 0
    assert "1 Convolution" in text
    assert f"shapes: data (1, 3, {size}, {size}); guessed" in text
    assert "out_output (1, 2)" in text
    assert "It loads, binds and runs." in text


def test_results_as_json(tmp_path: Path) -> None:
    prefix = save(tmp_path, convolutional(), data=(2, 3, 12, 12))
    document = ask_json(prefix, "3")
    assert document["ok"] is True
    found = document["findings"]
    assert list(found) == ["files", "operators", "parameters", "graph", "shapes", "bind", "run"]
    numbers = 4 * 3 * 9 + 4 + 2 * 4 * 100 + 2
    assert found["parameters"]["details"]["numbers"] == numbers
    assert found["parameters"]["details"]["bytes"] == 4 * numbers
    assert found["graph"]["details"]["data"] == ["data"]
    assert found["run"]["details"]["outputs"] == {"out_output": [1, 2]}


def flat_label() -> mx.sym.Symbol:
    x = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=9, output_dim=4, name="embed")
    label = mx.sym.Reshape(mx.sym.Variable("softmax_label"), shape=(-1,))
    x = mx.sym.FullyConnected(mx.sym.Reshape(x, shape=(-3, 4)), num_hidden=9, name="fc")
    return mx.sym.SoftmaxOutput(x, label, name="softmax")


def transcription() -> mx.sym.Symbol:
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=7, flatten=False, name="fc")
    x = mx.sym.transpose(x, axes=(1, 0, 2))
    return mx.sym.make_loss(mx.sym.CTCLoss(x, mx.sym.Variable("label")), name="loss")


def fixed_length() -> mx.sym.Symbol:
    x = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=9, output_dim=4, name="embed")
    x = mx.sym.Convolution(
        mx.sym.Reshape(x, shape=(-1, 1, 17, 4)), kernel=(3, 4), num_filter=2, name="conv"
    )
    return mx.sym.FullyConnected(x, num_hidden=2, name="fc")


@pytest.mark.parametrize(
    ("symbol", "shapes", "arguments", "found"),
    [
        (flat_label(), {"data": (2, 5), "softmax_label": (2, 5)}, (), "softmax_label (1, 10)"),
        (
            transcription(),
            {"data": (2, 12, 5), "label": (2, 3)},
            ("--shape", "data=2,12,5"),
            "label (2, 12)",
        ),
        (fixed_length(), {"data": (1, 17)}, (), "data (1, 17)"),
    ],
)
def test_shapes_of_labels_and_sequences_are_inferred(
    tmp_path: Path,
    symbol: mx.sym.Symbol,
    shapes: dict[str, tuple[int, ...]],
    arguments: tuple[str, ...],
    found: str,
) -> None:
    status, text = ask(save(tmp_path, symbol, **shapes), "3", *arguments)
    assert status == 0
    assert f"{found}; guessed" in text
    assert "It loads, binds and runs." in text


def test_a_given_shape_is_used(tmp_path: Path) -> None:
    x = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=4, name="c1")
    prefix = save(tmp_path, x, data=(1, 3, 8, 8))
    assert "data (1, 3, 224, 224)" in ask(prefix, "3")[1]
    status, text = ask(prefix, "3", "--shape", "data=2,3,40,9")
    assert (status, "c1_output (2, 4, 38, 7)" in text) == (0, True)
    status, text = ask(prefix, "3", "--shape", "data=2,5,40,9")
    assert (status, "Convolution 'c1'" in text) == (1, True)


@pytest.mark.parametrize("given", ["data", "data=", "data=a", "=1,2", "data=0,3"])
def test_a_malformed_shape_is_refused(tmp_path: Path, given: str) -> None:
    status, text = ask(str(tmp_path / "model"), "3", "--shape", given)
    assert (status, "expected name=1,3,224,224" in text) == (2, True)


def test_unknown_device_is_refused(tmp_path: Path) -> None:
    status, text = ask(str(tmp_path / "model"), "3", "--device", "tpu")
    assert (status, "cpu(0)" in text) == (2, True)


def test_a_missing_file_lists_those_that_exist(tmp_path: Path) -> None:
    prefix = save(tmp_path, convolutional(), data=(2, 3, 12, 12))
    status, text = ask(prefix, "4")
    assert status == 1
    assert "model-0004.params; there are model-0003.params" in text


def test_unknown_operators_are_all_named(tmp_path: Path) -> None:
    prefix = save(tmp_path, convolutional(), data=(2, 3, 12, 12))
    path = Path(f"{prefix}-symbol.json")
    graph = json.loads(path.read_text())
    for node in graph["nodes"]:
        if node["op"] in ("Activation", "softmax"):
            node["op"] += "_x"
    path.write_text(json.dumps(graph))
    document = ask_json(prefix, "3")
    assert document["ok"] is False
    operators = document["findings"]["operators"]
    assert operators["details"]["unknown"] == ["Activation_x", "softmax_x"]
    assert "did you mean 'Activation'" in operators["summary"]
    assert document["findings"]["parameters"]["ok"] is True


def test_unknown_operators_inside_loops_are_named(tmp_path: Path) -> None:
    out, _ = mx.sym.contrib.foreach(
        lambda x, state: (mx.sym.sin(x) + state, state), mx.sym.var("data"), mx.sym.zeros((3,))
    )
    prefix = save(tmp_path, out, data=(2, 3))
    assert ask_json(prefix, "3")["findings"]["operators"]["details"]["operators"]["sin"] == 1
    path = Path(f"{prefix}-symbol.json")
    path.write_text(path.read_text().replace('"sin"', '"sinus"'))
    assert ask_json(prefix, "3")["findings"]["operators"]["details"]["unknown"] == ["sinus"]


@pytest.mark.parametrize("content", [b"", b"[]", b'{"nodes": 3}', b'{"nodes": [3]}', b"\xff"])
def test_a_file_without_a_graph_is_refused(tmp_path: Path, content: bytes) -> None:
    prefix = save(tmp_path, convolutional(), data=(2, 3, 12, 12))
    Path(f"{prefix}-symbol.json").write_bytes(content)
    status, text = ask(prefix, "3")
    assert (status, "model-symbol.json is not a graph" in text) == (1, True)


def test_damaged_parameters_are_reported(tmp_path: Path) -> None:
    prefix = save(tmp_path, convolutional(), data=(2, 3, 12, 12))
    path = Path(f"{prefix}-0003.params")
    path.write_bytes(path.read_bytes()[:-9])
    document = ask_json(prefix, "3")
    assert document["ok"] is False
    assert list(document["findings"]) == ["files", "operators", "parameters"]
    assert document["findings"]["parameters"]["ok"] is False


def test_parameters_that_are_not_finite_are_reported(tmp_path: Path) -> None:
    prefix = save(tmp_path, convolutional(), data=(2, 3, 12, 12))
    path = f"{prefix}-0003.params"
    arrays = mx.nd.load(path)
    arrays["arg:fc_bias"][1] = math.nan
    mx.nd.save(path, arrays)
    found = ask_json(prefix, "3")["findings"]
    assert found["parameters"]["details"]["not_finite"] == ["fc_bias"]
    assert found["run"]["details"]["not_finite"] == ["out_output"]


def test_parameters_of_another_graph_are_reported(tmp_path: Path) -> None:
    prefix = save(tmp_path, convolutional(), data=(2, 3, 12, 12))
    arrays = mx.nd.load(f"{prefix}-0003.params")
    arrays["arg:c9_weight"] = mx.nd.zeros((2,))
    arrays["arg:c1_bias"] = mx.nd.zeros((5,))
    mx.nd.save(f"{prefix}-0003.params", arrays)
    found = ask_json(prefix, "3")["findings"]
    assert found["graph"]["details"]["extra"] == ["c9_weight"]
    assert "Convolution 'c1': bias has shape (5,), expected (4,)" in found["shapes"]["summary"]


def doctor(path: Path, *options: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["doctor", str(path), *options])
    return result.exit_code, result.output


def test_a_symbol_alone_is_examined(tmp_path: Path) -> None:
    save(tmp_path, convolutional(), data=(2, 3, 12, 12))
    (tmp_path / "model-0003.params").unlink()
    status, text = doctor(tmp_path / "model-symbol.json")
    assert status == 3
    assert "1 Convolution" in text
    assert "inputs data; outputs out_output" in text
    assert "parameters: none beside the symbol" in text


def test_bare_names_and_other_file_names_run(tmp_path: Path) -> None:
    x = mx.sym.BatchNorm(mx.sym.Variable("data"), name="bn")
    save(tmp_path, mx.sym.FullyConnected(x, num_hidden=2, name="fc"), data=(2, 5))
    arrays = mx.nd.load(str(tmp_path / "model-0003.params"))
    mx.nd.save(str(tmp_path / "params"), {key[4:]: one for key, one in arrays.items()})
    (tmp_path / "model-symbol.json").rename(tmp_path / "symbol.json")
    (tmp_path / "model-0003.params").unlink()
    status, text = doctor(tmp_path / "params")
    assert status == 0, text
    assert "symbol.json" in text
    assert "4 parameters and 2 auxiliary states" in text


def test_a_pointer_of_git_lfs_is_called_one(tmp_path: Path) -> None:
    prefix = save(tmp_path, convolutional(), data=(2, 3, 12, 12))
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    for name in ("symbol.json", "0003.params"):
        Path(f"{prefix}-{name}").write_bytes(pointer)
    found = ask_json(prefix, "3")["findings"]
    for step in ("operators", "parameters"):
        assert "a Git LFS pointer; 'git lfs pull' fetches" in found[step]["summary"]


def checkpoints() -> list[str]:
    folder = Path(__file__).parents[5] / "shared" / "checkpoints"
    return sorted(path.parent.name for path in folder.glob("*/outputs.npz"))


@pytest.mark.parametrize("name", checkpoints())
def test_real_models(shared_dir: Path, name: str) -> None:
    folder = shared_dir / "checkpoints" / name
    inputs = orjson.loads((folder / "meta.json").read_bytes())["inputs"]
    (params,) = folder.glob("*.params")
    prefix, _, epoch = params.stem.rpartition("-")
    given = [
        part for key, shape in inputs.items() for part in ("--shape", f"{key}={_joined(shape)}")
    ]
    found = ask_json(str(folder / prefix), str(int(epoch)), *given)["findings"]
    assert found["run"]["ok"], found
    with np.load(folder / "outputs.npz") as outputs:
        expected = sorted(list(outputs[name].shape) for name in outputs.files)
    assert sorted(found["run"]["details"]["outputs"].values()) == expected


def _joined(shape: list[int]) -> str:
    return ",".join(map(str, shape))


@pytest.mark.parametrize("mode", ["none", "naive"])
def test_a_quantized_network(tmp_path: Path, mode: str) -> None:
    prefix = save(tmp_path, convolutional(), data=(2, 3, 12, 12))
    data = mx.io.NDArrayIter(np.random.RandomState(0).rand(2, 3, 12, 12), batch_size=2)
    model = mx.contrib.quantization.quantize_model(
        *mx.model.load_checkpoint(prefix, 3),
        label_names=None,
        calib_mode=mode,
        calib_data=data,
        quantized_dtype="auto",
    )
    mx.model.save_checkpoint(str(tmp_path / "bytes"), 0, *model)
    status, text = ask(str(tmp_path / "bytes"), "0")
    assert status == 0, text
    assert "1 _contrib_quantized_conv" in text
    assert "float32 and int8" in text
    assert "shapes: data (1, 3, 12, 12); guessed" in text
