"""Every operator called without inputs: its outputs and new variables, against MXNet 1.9.1."""

from __future__ import annotations

import json
from typing import Any

import pytest

import core as mx
from core.ops.registry import registered_names
from oracle import golden_file
from oracle.topics.applications import describe
from oracle.topics.signatures import MODULES

_GOLDEN: dict[str, dict[str, Any]] = {
    module: json.loads((golden_file.GOLDEN / "applications" / f"{module}.json").read_text())
    for module in MODULES
}


def _cases() -> list[tuple[str, str]]:
    """Return module and function of every implemented operator, under every name."""
    registered = set(registered_names())
    prefixes = {module: f"_{module}_" for module in MODULES if module not in ("op", "_internal")}
    return [
        (module, function)
        for module in MODULES
        for function in _GOLDEN[module]
        if prefixes.get(module, "") + function in registered
    ]


def test_more_than_200_operators_are_compared() -> None:
    assert len(_cases()) > 200


@pytest.mark.parametrize(("module", "function"), _cases())
def test_outputs_and_variables_match_mxnets(module: str, function: str) -> None:
    expected = dict(_GOLDEN[module][function])
    given = expected.pop("given")
    assert describe(mx, getattr(getattr(mx.sym, module), function), given) == expected
