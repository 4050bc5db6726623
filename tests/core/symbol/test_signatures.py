"""Positional inputs and known attributes of operators, against MXNet 1.9.1."""

from __future__ import annotations

import json
from typing import Any

import pytest

import core as mx
from core.ops import get_operator
from core.ops.registry import registered_names
from oracle import golden_file
from oracle.topics.signatures import MODULES, parameters

_GOLDEN: dict[str, dict[str, list[str]]] = {
    module: json.loads((golden_file.GOLDEN / "signatures" / f"{module}.json").read_text())
    for module in MODULES
}
_PREFIXES = {module: f"_{module}_" for module in MODULES if module not in ("op", "_internal")}


_DIFFERENT = {
    "_contrib_SyncBatchNorm",  # Has BatchNorm's axis here.
    "BatchNorm_v1",  # An alias of BatchNorm here; MXNet hides its auxiliary states.
    "_linspace",  # MXNet lists the attributes of _arange, and refuses them.
}


def _cases() -> list[tuple[str, str, str]]:
    """Return module, function and registered name of every operator that MXNet has, too."""
    registered = set(registered_names())
    return [
        (module, function, name)
        for module in MODULES
        for function in _GOLDEN[module]
        if (name := _PREFIXES.get(module, "") + function) in registered and name not in _DIFFERENT
    ]


def test_most_operators_are_compared() -> None:
    assert len(_cases()) > 200


@pytest.mark.parametrize(("module", "function", "name"), _cases())
def test_parameters_match_mxnets(module: str, function: str, name: str) -> None:
    ignored = get_operator(name).ignored_attributes
    expected = [key for key in _GOLDEN[module][function] if key not in ignored]
    actual: Any = parameters(getattr(getattr(mx.sym, module), function))
    assert actual[: len(expected)] == expected
