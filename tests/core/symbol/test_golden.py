"""Composed symbols against MXNet 1.9.1: names, attributes, inference and JSON."""

from __future__ import annotations

import copy
import json
import pickle
from functools import cache
from typing import Any

import pytest

import core as mx
from oracle import golden_file
from oracle.topics.symbols import CASES, describe, make

_FACTS = (
    "name",
    "len",
    "arguments",
    "outputs",
    "auxiliary_states",
    "inputs",
    "attributes",
    "own_attributes",
    "internals",
    "children",
    "shapes",
    "dtypes",
    "json",
    "json_of_last_output",
)


@cache
def _described(case_id: str) -> dict[str, Any]:
    return describe(mx, case_id)


@cache
def _golden(case_id: str) -> dict[str, Any]:
    path = golden_file.GOLDEN / "symbols" / f"{case_id}.json"
    facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return facts


@pytest.mark.parametrize("fact", _FACTS)
@pytest.mark.parametrize("case_id", CASES)
def test_descriptions_match_mxnets(case_id: str, fact: str) -> None:
    assert _described(case_id)[fact] == _golden(case_id)[fact]


@pytest.mark.parametrize("case_id", CASES)
def test_every_description_is_complete(case_id: str) -> None:
    assert set(_FACTS) == _golden(case_id).keys() == _described(case_id).keys()


@pytest.mark.parametrize("case_id", CASES)
def test_symbols_survive_json_copy_and_pickle(case_id: str) -> None:
    expected = _golden(case_id)["json"]
    assert mx.sym.load_json(expected).tojson() == expected
    symbol = make(mx, case_id)
    assert copy.deepcopy(symbol).tojson() == expected
    assert pickle.loads(pickle.dumps(symbol)).tojson() == expected
