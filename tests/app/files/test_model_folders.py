"""Reading a models folder, and refusing invalid models."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.errors.tree import Damaged, Invalid
from app.files.model_folders import find_models, read_model, sign_model
from served.model_folders import write_epoch, write_model


def test_every_visible_folder_is_a_model(tmp_path: Path) -> None:
    for name in ("b", "a", ".git"):
        (tmp_path / name).mkdir()
    for name in ("README", "c.mar", "a.model", ".d.mar", "e.zip"):
        (tmp_path / name).touch()
    found = {name: [path.name for path in paths] for name, paths in find_models(tmp_path).items()}
    assert found == {"a": ["a", "a.model"], "b": ["b"], "c": ["c.mar"]}


def test_the_last_epoch_is_served(tmp_path: Path) -> None:
    write_model(tmp_path, 3, 12)
    (tmp_path / "other-0099.params").touch()
    files = read_model(tmp_path)
    assert files.epoch == 12
    assert sorted(files.params) == [3, 12]


def test_a_declaration_is_read(tmp_path: Path) -> None:
    text = "inputs: {data: {shape: [4, null], dtype: int32}}\nbuckets: [10, 20]\nmax_delay_us: 7\n"
    write_model(tmp_path, 1, declaration=text)
    declaration = read_model(tmp_path).declaration
    assert declaration.inputs["data"].shape == (4, None)
    assert declaration.buckets == (10, 20)
    assert declaration.max_delay_us == 7


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_batchsize: 3", "did you mean 'max_batch_size'"),
        ("inputs: {data: {shap: [1]}}", "inputs.data.shap"),
        ("inputs: {data: {shape: [-1]}}", "inputs.data.shape"),
        ("max_batch_size: '3'", "max_batch_size"),
        ("- 1", "modserve.yaml"),
        ("{", "YAML"),
        ("!!python/object/apply:os.system ['true']", "YAML"),
    ],
)
def test_invalid_declarations_are_refused(tmp_path: Path, text: str, said: str) -> None:
    write_model(tmp_path, 1, declaration=text)
    with pytest.raises(Invalid) as caught:
        read_model(tmp_path)
    assert said in str(caught.value)


def test_invalid_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"one file like net-symbol\.json"):
        read_model(tmp_path)
    write_model(tmp_path)
    (tmp_path / "old-0001.params").touch()
    with pytest.raises(Invalid, match=r"got old-0001\.params, expected a file like net-0001"):
        read_model(tmp_path)
    write_epoch(tmp_path, 1)
    (tmp_path / "net-symbol.json").write_text("{")
    with pytest.raises(Damaged, match=r"net-symbol\.json"):
        read_model(tmp_path)
    write_model(tmp_path)
    (tmp_path / "old-symbol.json").touch()
    with pytest.raises(Invalid, match=r"old-symbol.json"):
        read_model(tmp_path)


@pytest.mark.parametrize(
    ("symbol", "params"),
    [
        ("symbol.json", "params"),
        ("model.json", "model.params"),
        ("my net-symbol (1).json", "my net.params"),
        ("сеть-symbol.json", "сеть-0000.params"),
    ],
)
def test_other_names_of_files_are_read(tmp_path: Path, symbol: str, params: str) -> None:
    write_model(tmp_path, 0)
    (tmp_path / "net-symbol.json").rename(tmp_path / symbol)
    (tmp_path / "net-0000.params").rename(tmp_path / params)
    files = read_model(tmp_path)
    assert (files.symbol_path.name, files.params) == (symbol, {0: tmp_path / params})


def test_parameters_without_a_symbol_say_how_to_go_on(tmp_path: Path) -> None:
    write_epoch(tmp_path, 1)
    with pytest.raises(Invalid, match=r"load_parameters.*export"):
        read_model(tmp_path)


def test_a_pointer_of_git_lfs_is_called_one(tmp_path: Path) -> None:
    write_model(tmp_path, 1)
    (tmp_path / "net-symbol.json").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(Damaged, match="a Git LFS pointer"):
        read_model(tmp_path)


def test_a_signature_changes_with_the_files(tmp_path: Path) -> None:
    write_model(tmp_path, 1)
    first = sign_model(tmp_path)
    assert sign_model(tmp_path) == first
    os.utime(tmp_path / "net-0001.params", ns=(0, 0))
    touched = sign_model(tmp_path)
    write_epoch(tmp_path, 2)
    assert len({first, touched, sign_model(tmp_path)}) == 3
