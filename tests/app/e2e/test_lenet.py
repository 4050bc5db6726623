"""LeNet on MNIST digits, trained by jobs on a real server."""

import itertools
import time
from collections import Counter

import numpy as np
import pytest

from app.cli.demo.tour import images
from app.client import Client, ClientError
from app.client.local_server import ServerProcess
from served import lenet


@pytest.fixture(scope="module")
def trained(client: Client) -> int:
    """The id of a job that has trained module ``lenet`` for two epochs."""
    lenet.create(client, "lenet")
    job = lenet.fit(client, "lenet", validation=images("test"))
    assert client.wait(job)["status"] == "succeeded"
    return job


def test_two_epochs_reach_90_percent_accuracy(client: Client, trained: int) -> None:
    job = client.job(trained)
    assert job["attempt"] == 1
    assert job["result"]["validation"]["accuracy"] >= 0.9
    assert job["progress"]["epoch"] == 1
    assert client.module("lenet")["stage"] == "ready"


def test_metrics_of_every_epoch_are_kept(client: Client, trained: int) -> None:
    rows = [row["data"] for row in client.job_metrics(trained)]
    assert [(row["epoch"], row["part"]) for row in rows] == [
        (0, "train"),
        (0, "validation"),
        (1, "train"),
        (1, "validation"),
    ]
    first, _, last, _ = (row["metrics"] for row in rows)
    assert last["cross-entropy"] < first["cross-entropy"]
    assert last["accuracy"] > first["accuracy"]


def test_progress_reports_loss_and_speed(client: Client, trained: int) -> None:
    progress = [one["data"] for one in client.job_events(trained) if one["type"] == "progress"]
    assert progress, "no progress was reported"
    assert all(one["batches"] == 63 for one in progress)
    places = [(one["epoch"], one["batch"]) for one in progress]
    assert places == sorted(places)
    assert all(one["samples_per_second"] > 0 for one in progress)
    assert all(one["metrics"]["cross-entropy"] > 0 for one in progress)


def test_every_epoch_has_a_checkpoint(client: Client, trained: int) -> None:
    listed = client.checkpoints("lenet")
    assert [one["tag"] for one in listed] == ["2", "1"]
    assert all(one["job_id"] == trained for one in listed)
    assert {"lenet-symbol.json", "lenet-0002.params", "lenet-0002.states"} <= set(
        listed[0]["files"]
    )


def test_predictions_agree_with_the_score(client: Client, trained: int) -> None:
    data, labels = lenet.digits(1000)
    answers = client.predict("lenet", data=data)["softmax_output"].argmax(axis=1)
    job = client.wait(client.score("lenet", **images("test"), batch_size=50)["id"])
    assert job["status"] == "succeeded", job
    assert job["result"]["metrics"]["accuracy"] == pytest.approx(np.mean(answers == labels))


def test_a_predict_job_writes_the_predictions_as_a_dataset(client: Client, trained: int) -> None:
    source = {"dataset": "mnist", "inputs": {"data": images("test")["inputs"]["data"]}}
    job = client.predict_dataset("lenet", **source, batch_size=64, output="answers")
    assert client.wait(job["id"])["status"] == "succeeded"
    shown = client.request("GET", "/v1/datasets/answers/preview", params={"rows": 5}).json()
    expected = client.predict("lenet", data=lenet.digits(5)[0])["softmax_output"]
    np.testing.assert_allclose(shown["output0"], expected, rtol=1e-4, atol=1e-6)


def test_a_loaded_checkpoint_predicts_as_it_did(client: Client, trained: int) -> None:
    data, _ = lenet.digits(8)
    now = client.predict("lenet", data=data)["softmax_output"]
    client.load("lenet", 1)
    assert not np.array_equal(client.predict("lenet", data=data)["softmax_output"], now)
    client.load("lenet", 2)
    np.testing.assert_array_equal(client.predict("lenet", data=data)["softmax_output"], now)


def test_reconnecting_neither_loses_nor_repeats_events(client: Client) -> None:
    lenet.create(client, "followed")
    job = lenet.fit(client, "followed", epochs=3)
    seen = []
    for count in itertools.count(1):
        # Each time a new connection, closed after a few events.
        part = list(itertools.islice(client.job_events(job, seen[-1]["id"] if seen else 0), count))
        seen += part
        if len(part) < count:
            break
    assert seen == list(client.job_events(job))
    assert [one["id"] for one in seen] == sorted({one["id"] for one in seen})
    kinds = Counter(one["type"] for one in seen)
    assert kinds["submitted"] == kinds["claimed"] == kinds["succeeded"] == 1
    assert kinds["metric"] == kinds["checkpoint"] == 3
    assert seen[-1]["type"] == "succeeded"


def wait_for(client: Client, job: int, kind: str) -> dict:
    return next(one for one in client.job_events(job) if one["type"] == kind)


def test_a_job_is_paused_and_resumed(client: Client, trained: int) -> None:
    lenet.create(client, "resting")
    job = lenet.fit(client, "resting")
    wait_for(client, job, "progress")
    client.pause(job)
    paused = wait_for(client, job, "paused")
    assert client.job(job)["status"] == "paused"
    with pytest.raises(ClientError, match="409 illegal_transition"):
        client.pause(job)
    client.resume(job)
    assert client.wait(job)["status"] == "succeeded"
    events = list(client.job_events(job))
    later = [one for one in events if one["id"] > paused["id"]]
    assert [one["type"] for one in later][:2] == ["resumed", "claimed"]
    assert client.job(job)["result"]["samples"] == 2 * 4000
    assert digest(client, "resting") == digest(client, "lenet"), "the pause changes no bit"


def digest(client: Client, module: str) -> str:
    """Return the digest of the parameters after both epochs, in which no module name occurs."""
    return client.checkpoint(module, 2)["files"][f"{module}-0002.params"]["sha256"]


def test_a_job_is_cancelled_and_retried(client: Client) -> None:
    lenet.create(client, "restless")
    job = lenet.fit(client, "restless")
    wait_for(client, job, "progress")
    client.cancel(job)
    assert client.wait(job)["status"] == "cancelled"
    with pytest.raises(ClientError, match="409 illegal_transition"):
        client.resume(job)
    client.retry(job)
    assert client.wait(job)["status"] == "succeeded"


def test_a_module_with_an_unfinished_job_cannot_be_deleted(client: Client) -> None:
    lenet.create(client, "needed")
    job = lenet.fit(client, "needed")
    with pytest.raises(ClientError, match="409 in_use"):
        client.delete_module("needed")
    with pytest.raises(ClientError, match="409 in_use"):
        client.delete_dataset("mnist")
    client.cancel(job)
    client.wait(job)
    client.delete_module("needed")


@pytest.mark.serial
def test_predictions_do_not_wait_for_training(
    server: ServerProcess, client: Client, trained: int
) -> None:
    lenet.create(client, "long")
    job = lenet.fit(client, "long", epochs=50, batch_size=500, checkpoint={"epochs": 0})
    running = wait_for(client, job, "progress")
    data, _ = lenet.digits(1)
    medians = []
    with Client(server.url) as other:
        for _ in range(3):  # other load on the machine may slow down some of them
            times = [timed(lambda: other.predict("lenet", data=data)) for _ in range(20)]
            medians.append(float(np.median(times)))
    client.cancel(job)
    assert client.wait(job)["status"] == "cancelled"
    batch_seconds = 500 / client.job(job)["progress"]["samples_per_second"]
    assert running["data"]["samples_per_second"] > 0
    assert min(medians) < 2 * batch_seconds + 0.05, (medians, batch_seconds)


def timed(call) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
