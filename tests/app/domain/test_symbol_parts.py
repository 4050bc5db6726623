"""The part of a symbol that computes some of its outputs."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

import core as mx
from app.domain.symbol_parts import keep_outputs
from app.errors.tree import Damaged, Invalid


def trained() -> dict[str, Any]:
    """Return a net whose head has an operator that nobody has here."""
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, name="fc")
    parts = mx.sym.SliceChannel(x, num_outputs=3, name="split")
    scores = mx.sym.FullyConnected(parts[1], num_hidden=2, name="scores")
    head = mx.sym.broadcast_add(scores, mx.sym.Variable("label"), name="head")
    symbol: dict[str, Any] = json.loads(head.tojson())
    next(one for one in symbol["nodes"] if one["name"] == "head")["op"] = "Nobodys"
    return symbol


@pytest.mark.parametrize(
    ("outputs", "arguments"),
    [
        (["scores_output"], ["data", "fc_weight", "fc_bias", "scores_weight", "scores_bias"]),
        (["scores"], ["data", "fc_weight", "fc_bias", "scores_weight", "scores_bias"]),
        (["split_output1", "fc_output"], ["data", "fc_weight", "fc_bias"]),
    ],
)
def test_only_what_computes_them_stays(outputs: list[str], arguments: list[str]) -> None:
    symbol = trained()
    before = copy.deepcopy(symbol)
    kept = mx.sym.load_json(json.dumps(keep_outputs(symbol, outputs, "symbol")))
    assert kept.list_arguments() == arguments
    assert kept.list_outputs() == [
        one if one.rpartition("_")[2].startswith("output") else f"{one}_output" for one in outputs
    ]
    assert symbol == before


def test_an_unknown_output_is_refused_with_near_ones() -> None:
    with pytest.raises(Invalid, match=r"outputs\[1\]: got scors.*as scores_output"):
        keep_outputs(trained(), ["fc", "scors"], "symbol")


@pytest.mark.parametrize(
    "symbol",
    [
        {},
        {"nodes": 3},
        {"nodes": [3]},
        {"nodes": [{"op": "x", "name": "fc", "inputs": [[7, 0, 0]]}]},
        {"nodes": [{"op": "x", "name": "fc", "inputs": [3]}]},
    ],
)
def test_what_is_no_graph_is_refused(symbol: dict[str, Any]) -> None:
    with pytest.raises(Damaged, match="symbol: got not a graph"):
        keep_outputs(symbol, ["fc"], "symbol")
