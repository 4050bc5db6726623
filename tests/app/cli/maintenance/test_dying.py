"""A backup or a restore that is killed at any write is never taken for a complete one."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli.main import app as cli
from app.cli.maintenance import run_backup, run_recover, run_restore
from app.cli.maintenance.backup_manifest import read_backup
from app.domain.checkpoint import CheckpointTag
from app.domain.dataset import DatasetKind
from app.domain.module import SINGLE, ModuleRecord
from app.errors.tree import StartError
from app.files.checkpoint_files import write_checkpoint
from app.files.durable_files import locked
from app.files.restore_mark import RestoreMark, put_mark
from app.services.operations.storage import StorageOptions, open_storage
from app.store.store import sqlite_url

TESTS = Path(__file__).parents[3]


def options_of(data_dir: Path) -> StorageOptions:
    return StorageOptions(
        url=sqlite_url(data_dir / "modserve.db"),
        data_dir=data_dir,
        executor="cpu(0)",
        max_dataset_bytes=1 << 20,
        max_checkpoint_bytes=1 << 20,
        max_symbol_bytes=1 << 20,
    )


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with two modules, a checkpoint and a dataset, used by no server."""
    data_dir = tmp_path_factory.mktemp("dying") / "data"
    data_dir.mkdir()
    with ExitStack() as stack:
        storage = open_storage(options_of(data_dir), stack)
        for name in ("a", "b"):
            storage.modules.create(ModuleRecord(name=name, symbols={SINGLE: "{}"}))
        root = storage.checkpoints.root("a")
        with write_checkpoint(root, CheckpointTag(1), module="a") as writer:
            (writer.directory / "a-0001.params").write_bytes(b"parameters")
        with storage.datasets.begin("digits") as upload:
            upload.write(b"1,2\n")
            storage.datasets.commit(upload, "digits", DatasetKind.CSV)
        storage.recovery.run(rebuild=False)
    return data_dir


@pytest.fixture(scope="module")
def backup(data_dir: Path) -> Path:
    target = data_dir.with_name("backup")
    url = sqlite_url(data_dir / "modserve.db")
    assert run_backup(data_dir, url, target, as_json=False) == 0
    return target


@pytest.fixture(scope="module")
def killed_backups(data_dir: Path) -> list[Path]:
    return die("backup", data_dir, data_dir.with_name("backups"))


def die(what: str, source: Path, root: Path) -> list[Path]:
    """Run a command once for each of its writes, killed before it; return what each run made."""
    program = [sys.executable, "-m", "served.dying_maintenance", what, str(source), str(root)]
    environment = {**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent}"}
    subprocess.run(program, env=environment, check=True)
    numbers = sorted(int(path.name) for path in root.iterdir())
    return [root / str(number) / "made" for number in numbers]


def files_of(root: Path) -> dict[str, bytes]:
    """Return the content of all files but the database, whose ids go on."""
    found = (path for path in root.rglob("*") if path.is_file())
    apart = ("modserve.db", "servers/", "locks/")
    names = {str(path.relative_to(root)): path for path in found}
    return {name: names[name].read_bytes() for name in names if not name.startswith(apart)}


def knows(data_dir: Path) -> str:
    """Return what an opened data directory holds."""
    with ExitStack() as stack:
        storage = open_storage(options_of(data_dir), stack)
        report = storage.recovery.run(rebuild=False)
        return f"{report.counts} {report.findings}"


def test_a_killed_restore_is_not_served_and_can_be_continued(
    data_dir: Path, backup: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected, counts = files_of(data_dir), knows(data_dir)
    runs = die("restore", backup, tmp_path / "runs")
    assert len(runs) > 20
    refused = 0
    for made in runs[:-1]:
        is_complete = made.exists() and files_of(made) == expected
        is_marked = (made / ".restoring").exists()
        if not (is_complete or is_marked):
            assert not made.exists() or all(is_part_of_mark(one) for one in made.iterdir())
        elif is_refused(made, backup):
            refused += 1
        else:
            assert is_complete, f"half of it served after {made.parent.name} writes"
            continue
        assert run_restore(backup, made, has_own_url=False, as_json=False) == 0
        goes_on = "going on with the restore" in capsys.readouterr().err
        assert goes_on == is_marked
        assert files_of(made) == expected
        if int(made.parent.name) % 8 == 0:
            assert knows(made) == counts
    assert refused > 20
    assert read_backup(backup).modules == 2, "the backup is unchanged"


def is_part_of_mark(path: Path) -> bool:
    return path.name.startswith(".part-.restoring-")


def is_refused(data_dir: Path, backup: Path) -> bool:
    """Return whether no server opens a directory, because it is not completely restored."""
    before = sorted(data_dir.rglob("*"))
    try:
        with ExitStack() as stack:
            open_storage(options_of(data_dir), stack)
            return False
    except StartError as error:
        said = str(error)
    assert f"modserve restore {backup} --data-dir {data_dir}" in said
    assert sorted(data_dir.rglob("*")) == before
    return True


def test_a_restore_goes_on_only_with_its_own_backup(
    data_dir: Path, backup: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "half").mkdir()
    put_mark(tmp_path / "half", RestoreMark(source="/backups/other", sha256="0" * 64))
    assert run_restore(backup, tmp_path / "half", has_own_url=False, as_json=False) == 3
    assert "a part of another backup, /backups/other" in capsys.readouterr().err
    (tmp_path / "half" / ".restoring").write_bytes(b"damaged")
    assert run_restore(backup, tmp_path / "half", has_own_url=False, as_json=False) == 3
    assert "delete" in capsys.readouterr().err
    assert [path.name for path in tmp_path.glob("half/*")] == [".restoring"]


def test_nothing_else_is_done_in_a_directory_that_is_half_restored(
    backup: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half = tmp_path / "half"
    half.mkdir()
    put_mark(half, RestoreMark(source="/backups/monday", sha256="0" * 64))
    before = sorted(half.rglob("*"))
    url = sqlite_url(half / "modserve.db")
    assert run_backup(half, url, tmp_path / "second", as_json=False) == 3
    assert run_recover(options_of(half), check=True, as_json=False) == 3
    assert run_recover(options_of(half), check=False, as_json=False) == 3
    said = capsys.readouterr().err
    assert said.count(f"modserve restore /backups/monday --data-dir {half}") == 3
    ended = CliRunner().invoke(cli, ["serve", "--data-dir", str(half), "--host", "0.0.0.0"])
    assert ended.exit_code == 2
    assert "was interrupted" in ended.output
    assert sorted(half.rglob("*")) == before, "not even a key was made"


def test_two_restores_into_one_directory_exclude_each_other(
    backup: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    with locked(target):
        assert run_restore(backup, target, has_own_url=False, as_json=False) == 3
    assert "another restore or a server" in capsys.readouterr().err
    assert run_restore(backup, target, has_own_url=False, as_json=False) == 0


def test_a_killed_backup_leaves_nothing_that_the_next_one_does_not_remove(
    data_dir: Path, killed_backups: list[Path]
) -> None:
    assert len(killed_backups) > 20
    url = sqlite_url(data_dir / "modserve.db")
    left = [made.parent for made in killed_backups if any(made.parent.glob(".backup-*"))]
    assert len(left) > 20
    for made in killed_backups:
        assert not made.exists() or read_backup(made).modules == 2
    for folder in left[::8]:
        (running,) = folder.glob(".backup-*")
        with locked(data_dir / "locks" / "backups.lock", shared=True):
            assert run_backup(data_dir, url, folder / "second", as_json=False) == 0
            assert running.exists(), "it may be that of the backup that holds the lock"
        assert run_backup(data_dir, url, folder / "third", as_json=False) == 0
        assert {path.name for path in folder.iterdir()} == {"second", "third"}
