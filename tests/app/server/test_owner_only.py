"""Whatever a server and its children write is readable by its own user alone."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from app.cli.maintenance.backing_up import make_backup
from app.cli.maintenance.restoring import restore_backup
from app.client import Client
from app.client.local_server import PROGRAM, running_server
from served.keys import add_key
from served.network import BIND, NETWORK, examples_npz, fit_body
from served.processes import ENVIRONMENT


def open_to_others(folder: Path) -> list[Path]:
    return [
        one for one in (folder, *folder.rglob("*")) if stat.S_IMODE(one.lstat().st_mode) & 0o077
    ]


def work(data_dir: Path) -> None:
    """Let a server write files of every sort."""
    with running_server(data_dir, environment=ENVIRONMENT) as server, Client(server.url) as client:
        client.create_module("net", json.dumps(NETWORK))
        client.request("POST", "/v1/modules/net/bind", json=BIND)
        client.init_params("net", seed=1)
        httpx.put(f"{server.url}/v1/datasets/examples", content=examples_npz()).raise_for_status()
        client.wait(client.fit("net", **fit_body())["id"])
        client.request("POST", "/v1/modules/net/checkpoints", json={"epoch": 9})
        assert open_to_others(data_dir) == [data_dir / "server.log"]  # the shell's


def test_all_files_are_the_owners(tmp_path: Path) -> None:
    work(tmp_path / "new")
    backup = tmp_path / "backup"
    make_backup(tmp_path / "new", f"sqlite:///{tmp_path / 'new' / 'modserve.db'}", backup)
    restore_backup(backup, tmp_path / "again", with_database=True, say=print)
    for root in (backup, tmp_path / "again"):
        assert stat.S_IMODE(root.stat().st_mode) == 0o700


def test_a_directory_of_an_earlier_release_is_closed(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    add_key(data_dir, "first", "admin")
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
    data_dir.chmod(0o755)
    with running_server(data_dir, environment=ENVIRONMENT):
        assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700


def test_a_folder_that_others_need_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with running_server(tmp_path, environment=ENVIRONMENT):
        assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777
        assert set(open_to_others(tmp_path)) == {tmp_path, tmp_path / "server.log"}


@pytest.mark.parametrize(("host", "warns"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_an_open_server_warns(tmp_path: Path, host: str, warns: bool) -> None:
    command = [sys.executable, *PROGRAM, "serve", "--insecure", "--host", host, "--port", "0"]
    process = subprocess.Popen(
        [*command, "--data-dir", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | ENVIRONMENT | {"MODSERVE_LOG_LEVEL": "info"},
    )
    assert process.stderr is not None
    with process.stderr as lines:
        try:
            assert any("listening on" in line for line in lines)
            process.terminate()
            warnings = [line for line in lines if "WARNING" in line]
        finally:
            process.kill()
            process.wait()
    assert [("asks for no API key" in line) for line in warnings] == [True] * warns
