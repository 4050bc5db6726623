"""Name managers and attribute scopes, as in MXNet's test_attr.py and test_symbol.py."""

from __future__ import annotations

import threading

import pytest

from core.attribute import AttrScope
from core.name import NameManager, Prefix


def test_names_are_counted_per_hint_and_manager() -> None:
    with NameManager() as manager:
        assert [NameManager.active().get(None, hint) for hint in ("fc", "fc", "conv", "fc")] == [
            "fc0",
            "fc1",
            "conv0",
            "fc2",
        ]
        assert manager.get("mine", "fc") == "mine"
        with NameManager():
            assert NameManager.active().get(None, "fc") == "fc0"
        assert NameManager.active().get(None, "fc") == "fc3"


def test_prefix_applies_to_given_names_too() -> None:
    with Prefix("net_"):
        assert NameManager.active().get("fc", "x") == "net_fc"
        assert NameManager.active().get(None, "fc") == "net_fc0"


def test_inner_attributes_win_and_end_with_their_scope() -> None:
    with AttrScope(group="4", data="great"):
        with AttrScope(group="5", mood="calm"):
            assert AttrScope.active().get({"mood": "angry"}) == {
                "group": "5",
                "data": "great",
                "mood": "angry",
            }
        assert AttrScope.active().get(None) == {"group": "4", "data": "great"}
    assert AttrScope.active().get(None) == {}


def test_a_reused_scope_inherits_from_its_new_surroundings() -> None:
    scope = AttrScope(a="1")
    with AttrScope(b="2"), scope:
        assert scope.get(None) == {"a": "1", "b": "2"}
    with AttrScope(c="3"), scope, scope:
        assert scope.get(None) == {"a": "1", "c": "3"}
    assert scope.get(None) == {"a": "1"}


def test_attribute_values_must_be_strings() -> None:
    with pytest.raises(ValueError, match="Attributes need to be string, a is 1"):
        AttrScope(a=1)  # type: ignore[arg-type]


def test_each_thread_has_its_own_scopes() -> None:
    seen: list[object] = []

    def look() -> None:
        seen.extend((NameManager.active().get(None, "fc"), AttrScope.active().get(None)))

    with Prefix("main_"), AttrScope(a="1"):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen == ["fc0", {}]


def test_current_is_deprecated_but_works() -> None:
    with Prefix("p_") as prefix:
        with pytest.warns(DeprecationWarning, match=r"NameManager.current"):
            assert NameManager.current is prefix
        with pytest.warns(DeprecationWarning, match=r"NameManager.current"):
            NameManager.current = other = Prefix("q_")
        assert NameManager.active() is other


def test_an_exception_ends_a_scope() -> None:
    with pytest.raises(KeyError), AttrScope(a="1"), Prefix("p_"):
        raise KeyError
    assert AttrScope.active().get(None) == {}
    assert NameManager.active().get("x", "") == "x"
