"""Whole networks against MXNet 1.9.1: the JSON they are written as and what they answer."""

from __future__ import annotations

import pytest

import core as mx
from oracle import golden_file
from oracle.compare import assert_close
from oracle.topics.models import SYMBOLS, build, forward


def _file(name: str) -> str:
    return str(golden_file.GOLDEN / "models" / f"{name}-symbol.json")


@pytest.mark.parametrize("name", SYMBOLS)
def test_forward_of_the_loaded_symbol(name: str) -> None:
    output = forward(mx, name, mx.sym.load(_file(name)))
    assert_close(name, output, golden_file.topic("models")[name])


@pytest.mark.parametrize("name", SYMBOLS)
def test_built_here_is_written_alike(name: str) -> None:
    with open(_file(name), encoding="utf-8") as file:
        assert build(mx, name).tojson() == file.read()
