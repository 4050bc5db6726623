"""A third-party model on a real server: uploaded, fine-tuned for a new task, killed in between."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import core as mx
from app.cli.demo.tour import LENET
from app.client import Client
from served.processes import end_executor

SHAPES = [{"name": "data", "shape": [8, 1, 28, 28]}]
LABELS = [{"name": "softmax_label", "shape": [8]}]


def saved(folder: Path) -> list[Path]:
    """Return symbol and parameters of a LeNet saved by an MXNet-style script."""
    module = mx.mod.Module(mx.sym.load(str(LENET)))
    module.bind([("data", (1, 1, 28, 28))], [("softmax_label", (1,))])
    module.init_params(mx.init.Xavier())
    module.save_checkpoint(str(folder / "my"), 10)
    return [folder / "my-symbol.json", folder / "my-0010.params"]


def test_kept_and_newly_drawn_parameters_survive_the_executor(
    client: Client, tmp_path: Path
) -> None:
    files = saved(tmp_path)
    uploaded = client.create_from_files("my", files)
    assert (uploaded["checkpoint"], uploaded["params"]) == ("10", "checkpoint")
    head = {"name": "fc_new", "num_hidden": 5}
    client.create_from_module(
        "tuned", "my", output="flatten0_output", head=head, fixed_param_patterns=["c1", "c2"]
    )
    client.delete_module("my")
    client.bind("tuned", SHAPES, LABELS)
    client.init_params("tuned", "xavier", seed=6)
    before = client.params("tuned")
    params = mx.nd.load(str(files[1]))
    for name in ("c1_weight", "c1_bias", "c2_weight", "c2_bias"):
        np.testing.assert_array_equal(before[name], params[f"arg:{name}"].asnumpy())
    generation = client.module("tuned")["generation"]
    end_executor(client)
    after = client.params("tuned")
    assert client.module("tuned")["generation"] > generation
    assert sorted(after) == sorted(before)
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value)
    images = np.random.RandomState(0).rand(3, 1, 28, 28)
    assert client.predict("tuned", data=images)["softmax_output"].shape == (3, 5)
    statistics = client.statistics("tuned", "fc_new*")
    assert {row["of"] for row in statistics} == {"parameter", "gradient"}
