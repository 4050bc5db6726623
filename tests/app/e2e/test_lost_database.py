"""The files are authoritative: losing the database costs only the history of jobs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

from app.cli.demo.tour import MNIST, images
from app.client import Client, ClientError
from app.client.local_server import running_server
from served import lenet
from served.processes import ENVIRONMENT
from tests.app.e2e.test_old_data_directory import ARCHIVE

DATABASE = ("modserve.db", "modserve.db-wal", "modserve.db-shm")


def remove_database(data_dir: Path) -> None:
    for name in DATABASE:
        (data_dir / name).unlink(missing_ok=True)


def modserve(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "app", *arguments],
        env={**os.environ, **ENVIRONMENT, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def listing(data_dir: Path) -> dict[str, bytes]:
    """Return all files of modules and datasets with their contents."""
    return {
        str(path.relative_to(data_dir)): path.read_bytes()
        for folder in ("modules", "datasets")
        for path in (data_dir / folder).rglob("*")
        if path.is_file()
    }


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "server"


def train(client: Client) -> np.ndarray:
    """Train one module and initialize another; return what the first predicts."""
    client.put_dataset("mnist", MNIST)
    for name in ("lenet", "untrained"):
        lenet.create(client, name)
    job = client.wait(lenet.fit(client, "lenet", epochs=1))
    assert job["status"] == "succeeded"
    return client.predict("lenet", data=lenet.digits(5)[0])["softmax_output"]


def event_ids(client: Client, job: int) -> list[int]:
    return [event["id"] for event in client.job_events(job)]


def test_without_its_database_a_server_loses_only_jobs(data_dir: Path) -> None:
    with running_server(data_dir, environment=ENVIRONMENT) as server, Client(server.url) as client:
        expected = train(client)
        datasets, modules = client.datasets(), [one["name"] for one in client.modules()]
        checkpoints = client.checkpoints("lenet")
        # A score leaves no file behind that mentions the job.
        score = client.wait(client.score("lenet", **images("test"), batch_size=500)["id"])
        seen = event_ids(client, score["id"])
    before = listing(data_dir)
    remove_database(data_dir)
    with running_server(data_dir, environment=ENVIRONMENT) as server, Client(server.url) as client:
        assert [one["name"] for one in client.modules()] == modules
        assert [one["sha256"] for one in client.datasets()] == [one["sha256"] for one in datasets]
        assert client.checkpoints("lenet") == checkpoints
        digits = lenet.digits(5)[0]
        np.testing.assert_array_equal(
            client.predict("lenet", data=digits)["softmax_output"], expected
        )
        assert list(client.jobs()) == []
        assert "importing the contents of the data directory" in server.log.read_text()
        after = listing(data_dir)
        job = client.wait(lenet.fit(client, "lenet", epochs=2))
        assert min(event_ids(client, job["id"])) > max(seen)
        with pytest.raises(ClientError) as refused:
            client.job(score["id"])
        assert refused.value.status == 404, "the id of a lost job is not given to another one"
        client.delete_job(job["id"])
        assert lenet.fit(client, "lenet", epochs=1) > job["id"]
    assert after.keys() == before.keys()


def test_a_second_server_with_another_database_refuses_to_start(
    data_dir: Path, tmp_path: Path
) -> None:
    own = f"sqlite:///{tmp_path / 'own.db'}"
    with running_server(data_dir, environment=ENVIRONMENT) as server, Client(server.url) as client:
        train(client)
        before = listing(data_dir)
        second = {"MODSERVE_DATABASE_URL": own, "MODSERVE_DEVICES": '["cpu(1)"]'}
        serve = ("serve", "--port", "0", "--data-dir", str(data_dir))
        refused = modserve(*serve, **second)
        assert refused.returncode == 3
        assert "is in use by 1 other server(s) with another database" in refused.stderr
        assert "Traceback" not in refused.stderr
        assert listing(data_dir) == before
    environment = {**ENVIRONMENT, "MODSERVE_DATABASE_URL": own}
    with running_server(tmp_path / "other", environment=environment):
        pass
    refused = modserve(*serve, **second)
    assert refused.returncode == 3
    assert "belongs to another data directory" in refused.stderr
    assert listing(data_dir) == before


def test_two_servers_may_share_database_and_directory(data_dir: Path) -> None:
    second = {**ENVIRONMENT, "MODSERVE_DEVICES": '["cpu(1)"]'}
    with (
        running_server(data_dir, environment=ENVIRONMENT) as one,
        running_server(data_dir, environment=second) as other,
        Client(one.url) as here,
        Client(other.url) as there,
    ):
        lenet.create(here, "lenet")
        assert [module["name"] for module in there.modules()] == ["lenet"]


def test_a_damaged_database_is_reported_in_one_line_and_the_files_are_intact(
    data_dir: Path,
) -> None:
    with running_server(data_dir, environment=ENVIRONMENT) as server, Client(server.url) as client:
        lenet.create(client, "lenet")
    path = data_dir / "modserve.db"
    content = path.read_bytes()
    pages = content[:4096] + b"\xa5" * (len(content) - 4096)
    last = content[:-4096] + b"\xa5" * 4096  # read only by the integrity check
    for damaged in (b"no database at all" * 100, pages, last):
        path.write_bytes(damaged)
        refused = modserve("serve", "--port", "0", "--data-dir", str(data_dir))
        assert refused.returncode == 3
        assert "is damaged" in refused.stderr
        assert "away and start again" in refused.stderr
        assert "Traceback" not in refused.stderr
    remove_database(data_dir)
    with running_server(data_dir, environment=ENVIRONMENT) as server, Client(server.url) as client:
        assert [one["name"] for one in client.modules()] == ["lenet"]


def test_recover_reports_what_it_recovered_and_what_it_could_not(tmp_path: Path) -> None:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    data_dir = tmp_path / "var"
    remove_database(data_dir)
    (data_dir / "modules" / "stranger").mkdir()
    before = listing(data_dir)
    command = ("recover", "--data-dir", str(data_dir), "--json")
    checked = modserve(*command, "--check")
    assert checked.returncode == 1, checked.stderr
    assert not (data_dir / "modserve.db").exists()
    assert listing(data_dir) == before
    recovered = modserve(*command)
    assert recovered.returncode == 1, recovered.stderr
    rows = {(row["kind"], row["name"]): row for row in json.loads(recovered.stdout)["findings"]}
    assert rows["module", "trained"]["outcome"] == "rebuilt"
    assert rows["dataset", "toy"]["outcome"] == "imported"
    assert rows["module", "stranger"]["outcome"] == "left"
    after = listing(data_dir)
    assert {name for name in before if "/resume/" not in name} <= after.keys()
    with np.load(tmp_path / "expected.npz") as arrays:
        expected = dict(arrays)
    with running_server(data_dir, environment=ENVIRONMENT) as server, Client(server.url) as client:
        module = client.module("trained")
        assert module["stage"] == "created"
        shape = [[len(expected["examples"]), *expected["examples"].shape[1:]]]
        names = module["data_names"]
        shapes = [{"name": name, "shape": one} for name, one in zip(names, shape, strict=True)]
        client.request(
            "POST", "/v1/modules/trained/bind", json={"data_shapes": shapes, "for_training": False}
        )
        served = client.predict("trained", data=expected["examples"])["softmax_output"]
        np.testing.assert_allclose(served, expected["trained"], rtol=1e-5, atol=1e-6)
