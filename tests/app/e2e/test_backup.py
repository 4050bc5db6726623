"""A backup taken while a server trains: the restored server ends with the same bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.cli.demo.tour import MNIST
from app.client import Client
from app.client.local_server import ServerProcess, running_server
from served import lenet
from served.processes import ENVIRONMENT

FIT: dict[str, Any] = {"epochs": 2, "checkpoint": {"epochs": 1, "batches": 7}}


def modserve(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "app", *map(str, arguments)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("backup")


@pytest.fixture(scope="module")
def digests(folder: Path) -> dict[str, str]:
    """Back up in the middle of a fit, let it finish, and return digests of its results."""
    with (
        running_server(folder / "server", environment=ENVIRONMENT) as server,
        Client(server.url) as client,
    ):
        client.put_dataset("mnist", MNIST)
        lenet.create(client, "lenet")
        job = lenet.fit(client, "lenet", **FIT)
        saved = (one["data"] for one in client.job_events(job) if one["type"] == "checkpoint")
        next(one for one in saved if one["batch"] >= 14)
        made = modserve("backup", folder / "backup", "--data-dir", folder / "server", "--json")
        assert made.returncode == 0, made.stderr
        told = json.loads(made.stdout)
        assert (told["modules"], told["datasets"], told["left_out"]) == (1, 1, [])
        assert client.wait(job)["status"] == "succeeded"
        return newest(client)


def newest(client: Client) -> dict[str, str]:
    one = client.checkpoints("lenet")[0]
    assert one["tag"] == "2"
    return {
        name: one["files"][name]["sha256"] for name in ("lenet-0002.params", "lenet-0002.states")
    }


def test_a_restored_directory_continues_what_was_running(
    folder: Path, digests: dict[str, str]
) -> None:
    made = modserve("restore", folder / "backup", "--data-dir", folder / "again")
    assert made.returncode == 0, made.stderr
    environment = {**ENVIRONMENT, "MODSERVE_LEASE_SECONDS": "5"}
    with (
        running_server(folder / "again", environment=environment) as server,
        Client(server.url) as client,
    ):
        (job,) = client.jobs()
        assert client.wait(job["id"])["status"] == "succeeded"
        assert client.job(job["id"])["attempt"] == 2, "the backup was made while the job ran"
        ids = [event["id"] for event in client.job_events(job["id"])]
        assert ids[-1] - ids[0] > 1_000_000, "ids used since the backup are not used again"
        assert newest(client) == digests


def test_a_backup_without_its_database_is_recovered(folder: Path, digests: dict[str, str]) -> None:
    elsewhere = {"MODSERVE_DATABASE_URL": "postgresql+psycopg://127.0.0.1:1/nothing"}
    source, target = folder / "server", folder / "without"
    made = modserve("backup", target, "--data-dir", source, **elsewhere)
    assert made.returncode == 0, made.stderr
    assert "the job history is not in this backup" in made.stdout
    restored = modserve("restore", target, "--data-dir", folder / "taken-in")
    assert "without the job history" in restored.stdout
    with (
        running_server(folder / "taken-in", environment=ENVIRONMENT) as server,
        Client(server.url) as client,
    ):
        assert newest(client) == digests
        images = lenet.digits(3)[0]
        assert client.predict("lenet", data=images)["softmax_output"].shape == (3, 10)
        assert list(client.jobs()) == []


def test_a_damaged_backup_and_a_folder_in_use_are_refused(
    folder: Path, digests: dict[str, str], tmp_path: Path
) -> None:
    backup = folder / "backup"
    used = modserve("restore", backup, "--data-dir", folder / "server")
    assert (used.returncode, used.stdout) == (3, "")
    assert "is not empty" in used.stderr
    assert "is not empty" in modserve("backup", backup, "--data-dir", folder / "server").stderr
    assert (
        "not a data directory" in modserve("backup", tmp_path / "b", "--data-dir", tmp_path).stderr
    )
    assert "is not a backup" in modserve("restore", tmp_path, "--data-dir", tmp_path / "x").stderr

    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(backup), str(copy)], check=True)
    for path in sorted(path for path in copy.rglob("*") if path.is_file()):
        content = path.read_bytes()
        if path.name == "backup.json" or not content:
            continue
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        refused = modserve("restore", copy, "--data-dir", tmp_path / "none")
        assert refused.returncode == 3
        assert f"{path.relative_to(copy)} of the backup is damaged" in refused.stderr
        assert not (tmp_path / "none").exists()
        path.write_bytes(content)
        break
    (copy / "modules" / "lenet" / "module.json").unlink()
    refused = modserve("restore", copy, "--data-dir", tmp_path / "none")
    assert "cannot be read" in refused.stderr


def test_damaged_files_are_left_out_and_reported(folder: Path, digests: dict[str, str]) -> None:
    with running_server(folder / "again2", environment=ENVIRONMENT) as server:
        populate(server)
    params = folder / "again2" / "modules" / "lenet" / "checkpoints" / "1" / "lenet-0001.params"
    params.write_bytes(b"damaged")
    made = modserve("backup", folder / "rest", "--data-dir", folder / "again2")
    assert made.returncode == 1
    assert "! left out: checkpoint lenet/checkpoints/1" in made.stdout
    assert modserve("restore", folder / "rest", "--data-dir", folder / "r").returncode == 0


def populate(server: ServerProcess) -> None:
    with Client(server.url) as client:
        lenet.create(client, "lenet")
        client.bind("lenet", [{"name": "data", "shape": [1, 1, 28, 28]}], for_training=False)
        client.init_params("lenet", "xavier", seed=1)
        client.save_checkpoint("lenet", 1)
        assert len(client.checkpoints("lenet")) == 1
