"""Data recorded for a fit's curves: the learning rate of each batch, histograms of arrays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.client import Client, ClientError
from app.client.local_server import ServerProcess
from served.network import BIND, NETWORK, examples_npz, fit_body

EPOCHS = 2


@pytest.fixture
def client(server: ServerProcess, tmp_path: Path) -> Iterator[Client]:
    """A client, a module with initialized parameters and a dataset."""
    with Client(server.url) as client:
        client.create_module("curves", NETWORK)
        client.bind("curves", **BIND)
        client.init_params("curves", "xavier", seed=2)
        (tmp_path / "examples.npz").write_bytes(examples_npz())
        client.put_dataset("curve-examples", tmp_path / "examples.npz")
        yield client
        for job in client.jobs():
            client.delete_job(job["id"])
        client.delete_module("curves")
        client.delete_dataset("curve-examples")


def fit(client: Client, **changes: Any) -> int:
    body = fit_body(dataset="curve-examples", epochs=EPOCHS, **changes)
    job = client.wait(client.fit("curves", **body)["id"])
    assert job["status"] == "succeeded", job["error"]
    return job["id"]


def test_the_learning_rate_of_each_batch_follows_its_schedule(client: Client) -> None:
    schedule = {"lr_scheduler": {"name": "factor", "step": 2, "factor": 0.5}}
    job = fit(client, optimizer={"name": "sgd", "options": {"learning_rate": 0.08} | schedule})
    rates = client.job_series(job, "learning_rate")["values"]
    assert len(rates) >= 4
    # MXNet's FactorScheduler lowers the rate after more than `step` updates.
    expected = [0.08 * 0.5 ** ((update - 1) // 2) for update in range(1, len(rates) + 1)]
    np.testing.assert_allclose(rates, expected, rtol=1e-6)


def test_histograms_show_weights_and_gradients(client: Client) -> None:
    before = client.params("curves")
    job = fit(client, monitor={"interval": 2, "pattern": "*weight"})
    after = client.params("curves")
    found = client.job_histograms(job)
    names = [name for name in before if name.endswith("weight")]
    kinds = [(one["of"], one["name"]) for one in found["arrays"]]
    assert sorted(kinds) == sorted((of, name) for of in ("gradient", "parameter") for name in names)
    for name in names:
        rows = client.job_histograms(job, name)
        counts, _ = np.histogram(before[name], len(rows["counts"][0]))
        assert rows["counts"][0] == counts.tolist()
        assert (rows["lows"][0], rows["highs"][0]) == (before[name].min(), before[name].max())
        assert (rows["epochs"][0], rows["batches"][0]) == (0, 0)
        assert rows["total"] == len(rows["lows"]) >= EPOCHS
        assert all(batch % 2 == 0 for batch in rows["batches"])
        assert rows["lows"][-1] != before[name].min() or np.all(after[name] == before[name])
        gradients = client.job_histograms(job, name, of="gradient", points=2)
        assert gradients["array"] == {"of": "gradient", "name": name}
        assert [sum(row) for row in gradients["counts"]] == [before[name].size] * 2


def test_a_fit_without_a_monitor_has_no_histograms(client: Client) -> None:
    job = fit(client)
    with pytest.raises(ClientError) as refused:
        client.job_histograms(job)
    assert refused.value.status == 404
    assert "monitor" in refused.value.problem["detail"]


def test_deleting_a_job_deletes_its_files(data_dir: Path, client: Client) -> None:
    job = fit(client, monitor={"interval": 1})
    files = [path for path in data_dir.rglob(f"{job}.*") if path.parent.name == "metrics"]
    assert sorted(path.suffix for path in files) == [".histograms", ".series"]
    client.delete_job(job)
    assert not any(path.exists() for path in files)
