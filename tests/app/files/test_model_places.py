"""Finding a model's files from a file, a prefix or a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.files.model_places import ModelPlace, find_model


def test_a_model_is_found_by_any_of_its_files(tmp_path: Path) -> None:
    for name in ("net-symbol.json", "net-0003.params", "net-0010.params", "net-0010.states"):
        (tmp_path / name).write_text("")
    net = str(tmp_path / "net")
    newest = ModelPlace(tmp_path / "net-symbol.json", tmp_path / "net-0010.params")
    assert newest.states == tmp_path / "net-0010.states"
    assert find_model(str(tmp_path)) == newest
    assert find_model(net) == newest
    assert find_model(f"{net}-symbol.json") == newest
    older = find_model(f"{net}-0003.params")
    assert older == ModelPlace(newest.symbol, tmp_path / "net-0003.params")
    assert older.states is None


@pytest.mark.parametrize(
    ("symbol", "params"),
    [
        ("symbol.json", "params"),
        ("model.json", "model.params"),
        ("my net-symbol (1).json", "my net-0001.params"),
        ("сеть-symbol.json", "сеть-0001.params"),
    ],
)
def test_other_names_are_found_too(tmp_path: Path, symbol: str, params: str) -> None:
    place = ModelPlace(tmp_path / symbol, tmp_path / params)
    for path in (place.symbol, tmp_path / params):
        path.write_text("")
    for target in (tmp_path, place.symbol, tmp_path / params):
        assert find_model(str(target)) == place


def test_a_symbol_alone_has_no_parameters(tmp_path: Path) -> None:
    (tmp_path / "net-symbol.json").write_text("")
    (tmp_path / "other-0001.params").write_text("")
    place = find_model(str(tmp_path / "net-symbol.json"))
    assert (place.params, place.usual_params) == (None, tmp_path / "net-0001.params")


def test_parameters_alone_say_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "net-0001.params").write_text("")
    for target in (tmp_path, tmp_path / "net-0001.params"):
        with pytest.raises(ValueError, match=r"no file like net-symbol\.json: .*load_parameters"):
            find_model(str(target))


def test_a_file_with_another_name_is_not_taken_for_a_prefix(tmp_path: Path) -> None:
    path = tmp_path / "net.bin"
    path.write_text("")
    with pytest.raises(ValueError, match=r"net\.bin is not named like a model file, PREFIX-"):
        find_model(str(path))
