"""``Block.save`` and ``Block.load``: files written by MXNet 1.9.1 and files it can read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import core as mx
from core.errors import FormatError, MXNetError
from core.gluon import nn
from oracle import golden_file
from oracle.topics.saved_blocks import DATA, network

SAVED = golden_file.GOLDEN / "saved_blocks"
DATA_ARRAY = mx.nd.array(DATA)


def expected() -> np.ndarray:
    return golden_file.load(SAVED / "expected.npz")["output"]


def nodes(text: str) -> list[tuple[str, str]]:
    return [(node["op"], node["name"]) for node in json.loads(text)["nodes"]]


def test_a_model_saved_by_mxnet_keeps_its_names_and_graph() -> None:
    block = network(mx, "another_")
    block.load(str(SAVED / "net"))
    np.testing.assert_allclose(block(DATA_ARRAY).asnumpy(), expected(), rtol=1e-5)
    names = list(block.collect_params())
    assert names[0] == "saved_conv0_weight"
    assert all(name.startswith("saved_") for name in names)
    assert block.body._active
    graph = next(iter(block.body._compiled.values()))[0]._symbol
    assert "saved_conv0_weight" in graph.list_arguments()
    block.hybridize()  # hybridized again, under the same names
    np.testing.assert_allclose(block(DATA_ARRAY).asnumpy(), expected(), rtol=1e-5)


def test_a_saved_model_matches_mxnets_file(tmp_path: Path) -> None:
    block = network(mx, "another_")
    block.load(str(SAVED / "net"))
    block(DATA_ARRAY)
    block.save(str(tmp_path / "net"))
    written = json.loads((tmp_path / "net-model.json").read_text())
    theirs = json.loads((SAVED / "net-model.json").read_text())
    ours_of, theirs_of = (one["net0"]["hybridsequential1"] for one in (written, theirs))
    assert nodes(ours_of["symbol"]) == nodes(theirs_of["symbol"])
    assert [nodes(one) for one in ours_of["inputs"]] == [[("null", "data")]]
    for one in (written, theirs):
        # MXNet also saves the graphs it made for shape inference.
        _forget_graphs(one)
    assert written == theirs
    assert mx.nd.load(str(tmp_path / "net-model.params")).keys() == (
        mx.nd.load(str(SAVED / "net-model.params")).keys()
    )


def _forget_graphs(described: dict[str, Any]) -> None:
    for key in ("symbol", "inputs", "in_format", "out_format", "hybridized"):
        described.pop(key, None)
    for value in described.values():
        if isinstance(value, dict):
            _forget_graphs(value)


def test_a_block_with_nested_inputs_is_saved_and_loaded(tmp_path: Path) -> None:
    class Two(mx.gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.dense = nn.Dense(3, flatten=False)

        def hybrid_forward(self, F: Any, x: Any, pair: Any) -> Any:
            return self.dense(x), [pair[0] + pair[1], x]

    first = Two()
    first.initialize()
    first.hybridize()
    given = mx.nd.ones((2, 4)), [mx.nd.ones(2), mx.nd.zeros(2)]
    wanted = first(*given)
    first.save(str(tmp_path / "two"))
    second = Two()
    second.load(str(tmp_path / "two"))
    assert second._active
    found = second(*given)
    np.testing.assert_array_equal(found[0].asnumpy(), wanted[0].asnumpy())
    np.testing.assert_array_equal(found[1][0].asnumpy(), wanted[1][0].asnumpy())
    assert len(second._compiled) == 1  # the graph from the file is the one that ran
    with mx.autograd.record():
        loss = second(*given)[0].sum()
    loss.backward()
    assert second.dense.weight.grad().asnumpy().any()


def test_files_of_other_blocks_are_refused(tmp_path: Path) -> None:
    for name in ("net-model.json", "net-model.params"):
        shutil.copy(SAVED / name, tmp_path)
    other = nn.HybridSequential()
    with pytest.raises(FormatError, match="nothing about 'hybridsequential0' at block"):
        other.load(str(tmp_path / "net"))
    with pytest.raises(MXNetError, match=r"none-model\.json cannot be read"):
        other.load(str(tmp_path / "none"))
    (tmp_path / "net-model.json").write_text("[")
    with pytest.raises(FormatError, match=r"net-model\.json is not JSON"):
        other.load(str(tmp_path / "net"))
    (tmp_path / "net-model.json").write_text('{"hybridsequential0": 3}')
    with pytest.raises(FormatError, match="in the same order"):
        other.load(str(tmp_path / "net"))


def test_a_graph_with_other_parameters_is_refused(tmp_path: Path) -> None:
    dense = nn.Dense(2, in_units=3)
    dense.initialize()
    dense.hybridize()
    dense(mx.nd.ones((1, 3)))
    dense.save(str(tmp_path / "dense"))
    path = tmp_path / "dense-model.json"
    path.write_text(path.read_text().replace(f"{dense.name}_bias", "strange"))
    with pytest.raises(FormatError, match=r"reads \['strange'\], which are not parameters"):
        nn.Dense(2, in_units=3).load(str(tmp_path / "dense"))
