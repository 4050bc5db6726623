"""What the names of a model's files say."""

from __future__ import annotations

import pytest

from app.domain.model_names import params_among, stored_name, symbols_among, symbols_beside
from app.domain.names import check_name


@pytest.mark.parametrize(
    ("names", "symbol", "params"),
    [
        (
            ["net-symbol.json", "net-0001.params", "net-0010.params"],
            "net-symbol.json",
            {1: "net-0001.params", 10: "net-0010.params"},
        ),
        (["symbol.json", "params"], "symbol.json", {0: "params"}),
        (["symbol.json", "net-0002.params"], "symbol.json", {2: "net-0002.params"}),
        (["model.json", "model.params"], "model.json", {0: "model.params"}),
        (["config.json", "net.json", "net.params"], "net.json", {0: "net.params"}),
        (["net.json", "net-0004.params"], "net.json", {4: "net-0004.params"}),
        (["net-symbol.json", "net.params"], "net-symbol.json", {0: "net.params"}),
        (["net-symbol.json", "params"], "net-symbol.json", {0: "params"}),
        (
            ["net.params", "net-0000.params", "net-symbol.json"],
            "net-symbol.json",
            {0: "net-0000.params"},
        ),
        (
            ["net-symbol (1).json", "net-0003 (2).params"],
            "net-symbol (1).json",
            {3: "net-0003 (2).params"},
        ),
        (["ein netz-symbol.json", "ein netz-0001.params"], None, {1: "ein netz-0001.params"}),
        (["сеть-symbol.json", "сеть-0001.params"], None, {1: "сеть-0001.params"}),
        (["net-symbol.json", "old-0001.params"], "net-symbol.json", {}),
        (["symbol.json", "a-0001.params", "b-0001.params"], "symbol.json", {}),
    ],
)
def test_files_are_paired(names: list[str], symbol: str | None, params: dict[int, str]) -> None:
    (found,) = symbols_among(names)
    assert found == (symbol or names[0])
    assert params_among(names, found) == params
    for one in params.values():
        assert symbols_beside(names, one) == [found]


def test_other_json_files_are_no_symbols() -> None:
    assert symbols_among(["model-shapes.json", "signature.json", "net-0001.params"]) == []


@pytest.mark.parametrize(
    ("part", "name", "stored"),
    [
        ("symbol", "net-symbol.json", "net-symbol.json"),
        ("symbol", "model.json", "model.json"),
        ("symbol", "net-symbol (1).json", "net-symbol.json"),
        ("symbol", "my net-symbol.json", "my_net-symbol.json"),
        ("symbol", "сеть-symbol.json", "model-symbol.json"),
        ("symbol", "blob", "blob-symbol.json"),
        ("symbol", "", "model-symbol.json"),
        ("params", "net-0010 (1).params", "net-0010.params"),
        ("params", "params", "params.params"),
        ("params", "модель-0003.params", "model-0003.params"),
        ("params", "../../etc/net-0001.params", "net-0001.params"),
        ("params", "C:\\nets\\net-0001.params", "net-0001.params"),
        ("params", "..", "model.params"),
        ("params", "a\x00b\n.params", "a_b.params"),
        ("params", "x" * 300 + ".params", "x" * 100 + ".params"),
        ("states", "net-0010.bin", "net-0010.bin.states"),
    ],
)
def test_a_name_is_only_a_label(part: str, name: str, stored: str) -> None:
    assert stored_name(part, name) == stored
    assert check_name(stored) == stored
