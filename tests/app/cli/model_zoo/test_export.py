"""Networks of gluon's model zoo, found by their parameters."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import core as mx
from app.cli.main import app
from app.cli.model_zoo import export_network, network_names


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of seven classes saved in both ways, with its outputs."""
    folder = tmp_path_factory.mktemp("zoo")
    mx.random.seed(3)
    net = mx.gluon.model_zoo.vision.get_model("squeezenet1.1", classes=7)
    net.initialize(mx.init.Xavier())
    x = mx.nd.random.uniform(shape=(1, 3, 224, 224))
    np.savez(folder / "golden.npz", data=x.asnumpy(), output=net(x).asnumpy())
    net.save_parameters(str(folder / "by_place.params"))
    net.collect_params().save(str(folder / "by_name.params"))
    mx.nd.save(str(folder / "other.params"), {"features.0.weight": mx.nd.zeros((2, 3))})
    mx.nd.save(str(folder / "list.params"), [mx.nd.zeros((2, 3))])
    return folder


@pytest.mark.parametrize("name", ["by_place", "by_name"])
def test_a_network_is_found_and_exported(folder: Path, tmp_path: Path, name: str) -> None:
    chosen = export_network(folder / f"{name}.params", tmp_path / "net")
    assert chosen == "squeezenet1.1"
    symbol, arguments, auxiliary = mx.model.load_checkpoint(str(tmp_path / "net"), 0)
    with np.load(folder / "golden.npz") as golden:
        module = mx.mod.Module(symbol, label_names=None)
        module.bind([("data", (1, 3, 224, 224))], for_training=False)
        module.set_params(arguments, auxiliary)
        module.forward(mx.io.DataBatch([mx.nd.array(golden["data"])]), is_train=False)
        got = module.get_outputs()[0].asnumpy()
        np.testing.assert_allclose(got, golden["output"], rtol=1e-4, atol=1e-5)


def test_other_parameters_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"fits none of the 34 networks.*load_parameters"):
        export_network(folder / "other.params", tmp_path / "net")
    with pytest.raises(ValueError, match=r"does not fit alexnet: it has 16 parameters, and the"):
        export_network(folder / "by_place.params", tmp_path / "net", "alexnet")
    with pytest.raises(ValueError, match=r"does not fit alexnat: .*did you mean 'alexnet'"):
        export_network(folder / "by_place.params", tmp_path / "net", "alexnat")
    with pytest.raises(ValueError, match="no arrays with names"):
        export_network(folder / "list.params", tmp_path / "net")
    assert list(tmp_path.iterdir()) == []


def test_the_command(folder: Path, tmp_path: Path) -> None:
    listed = json.loads(CliRunner().invoke(app, ["zoo", "--json"]).output)
    assert listed["networks"] == network_names()
    assert "resnet50_v2" in CliRunner().invoke(app, ["zoo"]).output.split()
    out = str(tmp_path / "mine")
    asked = ["zoo", str(folder / "by_place.params"), "--network", "SqueezeNet1.1", "--out", out]
    made = CliRunner().invoke(app, asked)
    assert made.output == f"squeezenet1.1: wrote {out}-symbol.json and {out}-0000.params\n"
    assert Path(f"{out}-symbol.json").is_file()
    refused = CliRunner().invoke(app, ["zoo", str(folder / "other.params")])
    assert refused.exit_code == 1
