"""Finding a model's files from a file, a prefix or a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.model_places import find_model


def test_a_model_is_found_by_any_of_its_files(tmp_path: Path) -> None:
    for name in ("net-symbol.json", "net-0003.params", "net-0010.params"):
        (tmp_path / name).write_text("")
    net = str(tmp_path / "net")
    assert find_model(str(tmp_path)) == (net, 10)
    assert find_model(net) == (net, 10)
    assert find_model(f"{net}-symbol.json") == (net, 10)
    assert find_model(f"{net}-0003.params") == (net, 3)


def test_a_file_with_another_name_is_not_taken_for_a_prefix(tmp_path: Path) -> None:
    path = tmp_path / "net.params"
    path.write_text("")
    with pytest.raises(ValueError, match=r"net\.params is not named like a model file, PREFIX-"):
        find_model(str(path))
