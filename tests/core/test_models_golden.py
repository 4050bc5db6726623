"""Whole networks against MXNet 1.9.1: their JSON and their outputs."""

from __future__ import annotations

import pytest

import core as mx
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.models import SYMBOLS, build, forward


def _file(name: str) -> str:
    return str(golden_file.GOLDEN / "models" / f"{name}-symbol.json")


@pytest.mark.parametrize("name", SYMBOLS)
def test_outputs_of_loaded_symbols_match_mxnets(name: str) -> None:
    output = forward(mx, name, mx.sym.load(_file(name)))
    assert_close(name, output, golden_file.topic("models")[name])


@pytest.mark.parametrize("name", SYMBOLS)
def test_networks_built_here_have_mxnets_json(name: str) -> None:
    with open(_file(name), encoding="utf-8") as file:
        assert build(mx, name).tojson() == file.read()
