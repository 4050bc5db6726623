"""Modules restored by a real server: from older checkpoints, and in spite of a broken one."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx
import numpy as np
import pytest

from app.client import Client, ClientError
from app.client.local_server import running_server
from served.network import BATCH, BIND, FEATURES, NETWORK, examples_npz, fit_body
from served.processes import ENVIRONMENT

EXAMPLES = np.random.RandomState(0).rand(BATCH, FEATURES).astype("f")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "server"


@pytest.fixture
def trained(folder: Path) -> list[np.ndarray]:
    """A data directory with modules ``net`` and ``other``; what ``net`` predicted by epoch."""
    with running_server(folder, environment=ENVIRONMENT) as server, Client(server.url) as client:
        for name in ("net", "other"):
            client.create_module(name, NETWORK)
            client.bind(name, **BIND)
        client.init_params("other", "xavier", seed=2)
        predicted = []
        for epoch in (0, 1, 2):
            client.init_params("net", "xavier", seed=epoch)
            client.save_checkpoint("net", epoch)
            predicted.append(client.predict("net", data=EXAMPLES)["softmax_output"])
    return predicted


def test_a_damaged_or_missing_checkpoint_falls_back_to_the_one_before(
    folder: Path, trained: list[np.ndarray], tmp_path: Path
) -> None:
    root = folder / "modules" / "net" / "checkpoints"
    file = root / "2" / "net-0002.params"
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    shutil.rmtree(root / "1")
    with running_server(folder, environment=ENVIRONMENT) as server, Client(server.url) as client:
        assert client.module("net")["resident"] is False
        after = client.predict("net", data=EXAMPLES)["softmax_output"]
        np.testing.assert_array_equal(after, trained[0])
        net = client.module("net")
        assert (net["state"], net["restored_from"], net["checkpoint"]) == ("ready", "0", "2")
        ready = httpx.get(f"{server.url}/readyz")
        assert ready.status_code == 200
        (warning,) = ready.json()["warnings"]
        assert "module net: checkpoint 2" in warning
        assert "restored from checkpoint 0" in warning
        examples = tmp_path / "examples.npz"
        examples.write_bytes(examples_npz())
        client.put_dataset("examples", examples)
        job = int(client.fit("net", **fit_body(epochs=1))["id"])
        assert client.wait(job)["status"] == "succeeded"
        lines = [one["data"] for one in client.job_events(job) if one["type"] == "log"]
        assert any("restored from checkpoint 0" in line["message"] for line in lines)
        assert client.module("net")["restored_from"] is None
        assert httpx.get(f"{server.url}/readyz").json()["warnings"] == []


def test_a_resumed_fit_reports_the_checkpoints_it_skipped(folder: Path, tmp_path: Path) -> None:
    examples = tmp_path / "examples.npz"
    examples.write_bytes(examples_npz())
    with running_server(folder, environment=ENVIRONMENT) as server, Client(server.url) as client:
        client.create_module("net", NETWORK)
        client.put_dataset("examples", examples)
        body = fit_body(epochs=1_000_000, checkpoint={"batches": 50, "keep": None})
        job = int(client.fit("net", **body)["id"])
        events = client.job_events(job)
        for _ in range(2):
            next(one for one in events if one["type"] == "checkpoint")
        client.pause(job)
        next(one for one in events if one["type"] == "paused")
        tag = client.checkpoints("net")[0]["tag"]
        for file in folder.glob(f"modules/net/**/{tag}/*.params"):
            file.write_bytes(file.read_bytes()[:-1])
        client.resume(job)
        went_on = next(
            one["data"]["message"]
            for one in events
            if one["type"] == "log" and "going on from" in one["data"]["message"]
        )
        assert not went_on.endswith(f" {tag}")
        client.cancel(job)
        logs = [one["data"] for one in client.job_events(job) if one["type"] == "log"]
        warned = [one["message"] for one in logs if one["level"] == "warning"]
        assert any(f"checkpoints/{tag}" in one and ".params" in one for one in warned), logs


def test_a_module_without_a_valid_checkpoint_fails_and_the_others_are_served(
    folder: Path, trained: list[np.ndarray]
) -> None:
    saved = folder / "saved"
    root = folder / "modules" / "net" / "checkpoints"
    root.rename(saved)
    with running_server(folder, environment=ENVIRONMENT) as server, Client(server.url) as client:
        client.predict("other", data=EXAMPLES)
        for _ in range(2):
            with pytest.raises(ClientError) as refused:
                client.predict("net", data=EXAMPLES)
            problem = refused.value.problem
            assert (refused.value.status, problem["code"]) == (409, "module_failed")
            assert "params/init" not in problem["detail"]
        net = client.module("net")
        assert net["state"] == "failed"
        assert "checkpoint 2" in net["reason"]
        ready = httpx.get(f"{server.url}/readyz")
        assert ready.status_code == 200
        assert "module net" in ready.json()["warnings"][0]
        saved.rename(root)
        assert client.restore_module("net")["state"] == "ready"
        after = client.predict("net", data=EXAMPLES)["softmax_output"]
        np.testing.assert_array_equal(after, trained[2])


def test_the_remedy_suggested_for_a_damaged_checkpoint_works(
    folder: Path, trained: list[np.ndarray]
) -> None:
    file = folder / "modules" / "net" / "checkpoints" / "2" / "net-0002.params"
    sound = file.read_bytes()
    file.write_bytes(sound[:-1] + b"!")
    for epoch in ("0", "1"):
        shutil.rmtree(file.parents[1] / epoch)
    with running_server(folder, environment=ENVIRONMENT) as server, Client(server.url) as client:
        with pytest.raises(ClientError, match=r"same files again.*POST /v1/modules/net/res"):
            client.predict("net", data=EXAMPLES)
        with pytest.raises(ClientError, match="POST /v1/modules/net/restore"):
            client.delete_checkpoint("net", 2)
        url = "/v1/modules/net/checkpoints/1/files/net-0001.params"
        client.request("PUT", url, content=sound)
        assert client.restore_module("net")["state"] == "ready"
        client.request("POST", "/v1/modules/net/load", json={"epoch": 1})
        client.delete_checkpoint("net", 2)
        assert [one["tag"] for one in client.checkpoints("net")] == ["1"]
        assert httpx.get(f"{server.url}/readyz").json()["warnings"] == []
        after = client.predict("net", data=EXAMPLES)["softmax_output"]
        np.testing.assert_array_equal(after, trained[2])


def test_a_failed_module_is_recovered_by_other_parameters(
    folder: Path, trained: list[np.ndarray]
) -> None:
    root = folder / "modules" / "net" / "checkpoints"
    saved = root.rename(folder / "saved")
    sound = (saved / "1" / "net-0001.params").read_bytes()
    with running_server(folder, environment=ENVIRONMENT) as server, Client(server.url) as client:
        with pytest.raises(ClientError, match="POST /v1/modules/net/load") as failed:
            client.predict("net", data=EXAMPLES)
        assert failed.value.code == "module_failed"
        url = "/v1/modules/net/checkpoints/7/files/net-0007.params"
        client.request("PUT", url, content=sound)
        for wrong in ({"epoch": 7, "optimizer_states": True}, {"epoch": 8}):
            with pytest.raises(ClientError):  # without states, without a checkpoint
                client.load("net", **wrong)
            with pytest.raises(ClientError) as failed:
                client.predict("net", data=EXAMPLES)
            assert failed.value.code == "module_failed"
        before = client.module("net")["generation"]
        client.load("net", 7)
        net = client.module("net")
        assert (net["state"], net["checkpoint"], net["durable"]) == ("ready", "7", True)
        assert net["generation"] > before
        after = client.predict("net", data=EXAMPLES)["softmax_output"]
        np.testing.assert_array_equal(after, trained[1])
        assert httpx.get(f"{server.url}/readyz").json()["warnings"] == []
