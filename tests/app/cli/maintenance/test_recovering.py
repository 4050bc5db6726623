"""``modserve recover``, run in this process."""

from __future__ import annotations

import json
import sqlite3
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from app.cli.maintenance import run_recover
from app.domain.module import SINGLE, ModuleRecord
from app.services.operations.storage import StorageOptions, open_storage


@pytest.fixture
def options(tmp_path: Path) -> StorageOptions:
    """A data directory with a module, not used by any server."""
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    options = StorageOptions(
        url=f"sqlite:///{data_dir / 'modserve.db'}",
        data_dir=data_dir,
        executor="cpu(0)",
        max_dataset_bytes=1 << 20,
        max_checkpoint_bytes=1 << 20,
        max_symbol_bytes=1 << 20,
    )
    with ExitStack() as stack:
        storage = open_storage(options, stack)
        storage.modules.create(ModuleRecord(name="a", symbols={SINGLE: "{}"}))
    return options


def test_a_healthy_directory_is_reported_as_such(
    options: StorageOptions, capsys: pytest.CaptureFixture[str]
) -> None:
    for check in (True, False):
        assert run_recover(options, check=check, as_json=False) == 0
        assert "knows 1 modules, 0 checkpoints, 0 datasets; all is well" in capsys.readouterr().out


def test_a_directory_in_use_is_only_inspected(
    options: StorageOptions, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack:
        open_storage(options, stack)
        assert run_recover(options, check=False, as_json=False) == 3
        assert "a server is using" in capsys.readouterr().err
        assert run_recover(options, check=True, as_json=False) == 0


def test_damage_is_reported_and_then_repaired(
    options: StorageOptions, capsys: pytest.CaptureFixture[str]
) -> None:
    path = options.data_dir / "modules" / "a" / "module.json"
    path.write_bytes(b"damaged")
    assert run_recover(options, check=True, as_json=True) == 1
    (row,) = json.loads(capsys.readouterr().out)["findings"]
    assert (row["kind"], row["name"], row["outcome"]) == ("module", "a", "damaged")
    assert path.read_bytes() == b"damaged"
    assert run_recover(options, check=False, as_json=False) == 1
    assert "! module a: damaged" in capsys.readouterr().out
    assert run_recover(options, check=False, as_json=False) == 0


def test_a_missing_directory_is_an_error(
    tmp_path: Path, options: StorageOptions, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = replace(options, data_dir=tmp_path / "nowhere")
    assert run_recover(nowhere, check=False, as_json=False) == 3
    assert "give --data-dir" in capsys.readouterr().err


def test_a_check_changes_no_row(options: StorageOptions) -> None:
    file = options.data_dir / "modserve.db"

    def rows() -> list[str]:
        with closing(sqlite3.connect(file)) as connection:
            return list(connection.iterdump())

    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("DELETE FROM counters WHERE name LIKE 'clock%'")  # as after a reboot
    before = rows()
    assert run_recover(options, check=True, as_json=False) == 0
    assert rows() == before
    assert run_recover(options, check=False, as_json=False) == 0
    assert rows() != before
