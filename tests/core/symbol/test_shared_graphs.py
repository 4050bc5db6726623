"""116 real graphs, written by MXNet 0.7 to 1.9, against MXNet 1.9.1's view of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

import core as mx
from oracle.shared import SHARED

_FOLDER = SHARED / "symbols"
_ORACLE: dict[str, Any] = (
    json.loads((_FOLDER / "oracle.json").read_text(encoding="utf-8")) if _FOLDER.is_dir() else {}
)


@pytest.mark.parametrize("file", sorted(_ORACLE))
def test_descriptions_match_mxnets(file: str) -> None:
    expected = _ORACLE[file]
    symbol = mx.sym.load(str(_FOLDER / file))
    assert symbol.list_arguments() == expected["arguments"]
    assert symbol.list_outputs() == expected["outputs"]
    assert symbol.list_auxiliary_states() == expected["auxiliary_states"]


@pytest.mark.parametrize("file", sorted(_ORACLE))
def test_graphs_are_rewritten_unchanged(file: str) -> None:
    symbol = mx.sym.load(str(_FOLDER / file))
    text = symbol.tojson()
    again = mx.sym.load_json(text)
    assert again.tojson() == text
    assert again.attr_dict() == symbol.attr_dict()
    assert again.list_arguments() == symbol.list_arguments()
