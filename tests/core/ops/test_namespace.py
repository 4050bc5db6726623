"""Which module contains which operator, by MXNet's rules."""

from __future__ import annotations

import sys
import types

import pytest

from core.ops import namespace, registry
from core.ops.activation import Activation
from core.ops.namespace import INTERNAL, PUBLIC, OperatorNamespace

NAMES = ("dot", "_plus", "_contrib_box_nms", "_random_uniform", "_random_uniform_like", "_np_copy")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    monkeypatch.setattr(registry, "_operators", dict.fromkeys(NAMES, Activation))
    module = types.ModuleType("some.module")
    monkeypatch.setitem(sys.modules, "some.module", module)
    return module


@pytest.mark.parametrize(
    ("prefix", "shown"),
    [
        (PUBLIC, {"dot"}),
        (INTERNAL, {"_plus", "_random_uniform"}),
        ("_contrib_", {"box_nms"}),
        ("_random_", {"uniform_like"}),
        ("_linalg_", set()),
    ],
)
def test_operators_are_in_the_module_of_their_prefix(
    module: types.ModuleType, prefix: str, shown: set[str]
) -> None:
    operators = OperatorNamespace("some.module", prefix, lambda cls, name: lambda: (cls, name))
    assert set(operators.names()) - set(vars(module)) == shown
    for name in shown:
        function = operators.get(name)
        assert function() == (Activation, name)
        assert function.__module__ == "some.module"
        assert vars(module)[name] is function


@pytest.mark.parametrize("name", ["_plus", "box_nms", "uniform_like", "nonsense"])
def test_operators_of_other_modules_are_missing(module: types.ModuleType, name: str) -> None:
    operators = OperatorNamespace("some.module", PUBLIC, lambda cls, name: lambda: None)
    with pytest.raises(AttributeError, match=f"'some.module' has no attribute '{name}'"):
        operators.get(name)


def test_a_misspelt_name_gets_a_suggestion(module: types.ModuleType) -> None:
    operators = OperatorNamespace("some.module", "_contrib_", lambda cls, name: lambda: None)
    with pytest.raises(AttributeError, match="did you mean 'box_nms'"):
        operators.get("box_nns")


def test_prefixes_are_single_words_between_underscores() -> None:
    assert all(prefix == f"_{prefix.strip('_')}_" for prefix in namespace.PREFIXES)
