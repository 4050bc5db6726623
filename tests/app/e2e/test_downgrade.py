"""A release older than the data directory says so and changes nothing."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pytest

from app.client.local_server import running_server
from app.files.last_release import check_release, last_release_file, note_release
from served.processes import ENVIRONMENT


def modserve(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "app", *map(str, arguments)],
        env=os.environ | ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def digests(folder: Path) -> dict[str, str]:
    """Return digests of a directory's files, except locks and the log."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "lock" not in str(path.relative_to(folder))
    }


def test_a_newer_releases_directory_is_not_touched(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with running_server(data_dir, environment=ENVIRONMENT):
        assert last_release_file(data_dir).read_text() == f"{version('modserve')}\n"
    (data_dir / "server.log").unlink()
    assert modserve("backup", tmp_path / "copy", "--data-dir", data_dir).returncode == 0

    last_release_file(data_dir).write_text("999.1.0\n")
    before = digests(data_dir)
    for command in (
        ("serve", "--port", "0", "--data-dir", data_dir),
        ("recover", "--data-dir", data_dir),
        ("recover", "--check", "--data-dir", data_dir),
    ):
        refused = modserve(*command)
        assert refused.returncode == 3, command
        assert "was last written by modserve 999.1.0" in refused.stderr, command
        assert "Traceback" not in refused.stderr
    assert digests(data_dir) == before

    restored = modserve("restore", tmp_path / "copy", "--data-dir", tmp_path / "again")
    assert restored.returncode == 0
    note = last_release_file(tmp_path / "again").read_text()
    assert note == f"{version('modserve')}\n", "the backup contains the release, too"


def test_a_newer_database_is_not_touched(tmp_path: Path) -> None:
    with running_server(tmp_path, environment=ENVIRONMENT):
        pass
    with closing(sqlite3.connect(tmp_path / "modserve.db")) as database, database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    before = digests(tmp_path)
    refused = modserve("serve", "--port", "0", "--data-dir", tmp_path)
    assert refused.returncode == 3
    assert "the database has schema 9999, this modserve knows those up to" in refused.stderr
    assert digests(tmp_path) == before


@pytest.mark.parametrize("noted", ["0.0.1", "nonsense", "", None])
def test_other_directories_are_opened_and_marked_with_this_release(
    noted: str | None, tmp_path: Path
) -> None:
    if noted is not None:
        last_release_file(tmp_path).write_text(noted)
    check_release(tmp_path)
    note_release(tmp_path)
    assert last_release_file(tmp_path).read_text() == f"{version('modserve')}\n"


def test_patch_releases_are_compatible(tmp_path: Path) -> None:
    major, minor = version("modserve").split(".")[:2]
    last_release_file(tmp_path).write_text(f"{major}.{minor}.999\n")
    check_release(tmp_path)
