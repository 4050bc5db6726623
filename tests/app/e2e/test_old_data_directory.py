"""A data directory written by commit cbcf0c1 still works: database, modules, a paused job."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from app.client import Client
from app.client.local_server import running_server
from served.processes import ENVIRONMENT

ARCHIVE = Path(__file__).parents[2] / "data" / "data_directory_cbcf0c1.tar.gz"


@pytest.fixture
def expected(tmp_path: Path) -> dict[str, np.ndarray]:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    with np.load(tmp_path / "expected.npz") as arrays:
        return dict(arrays)


@pytest.fixture
def client(tmp_path: Path, expected: dict[str, np.ndarray]) -> Iterator[Client]:
    with (
        running_server(tmp_path / "var", environment=ENVIRONMENT) as server,
        Client(server.url) as client,
    ):
        yield client


def test_its_paused_fit_ends_like_the_undisturbed_one(
    client: Client, expected: dict[str, np.ndarray]
) -> None:
    def predicted(name: str) -> np.ndarray:
        return client.predict(name, data=expected["examples"])["softmax_output"]

    for name in ("trained", "seeded", "twin"):
        np.testing.assert_allclose(predicted(name), expected[name], rtol=1e-5, atol=1e-6)
    assert [row["name"] for row in client.datasets()] == ["toy"]
    assert [row["tag"] for row in client.checkpoints("trained")] == ["3", "2"]
    (paused,) = [job for job in client.jobs() if job["status"] == "paused"]
    client.resume(paused["id"])
    assert client.wait(paused["id"])["status"] == "succeeded"
    np.testing.assert_allclose(predicted("paused"), expected["twin"], rtol=1e-4, atol=1e-6)
    assert len(client.job_metrics(1)) == 3
    (job,) = [job for job in client.jobs() if job["id"] == 1]
    events = list(client.job_events(1))
    assert [events[0]["type"], events[-1]["type"]] == ["submitted", "succeeded"]
    assert {one["module"] for one in events} == {job["module"]}
