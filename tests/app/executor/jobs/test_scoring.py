"""Score and predict jobs. Expected values: NumPy, and the host's own predictions."""

from __future__ import annotations

import errno
import os

import numpy as np
import pytest

import core as mx
from app.domain.job import JobAction, JobKind
from app.domain.module import (
    SINGLE,
    BindSpec,
    BucketShapes,
    InitSpec,
    InputDesc,
    ModuleKind,
    ModuleRecord,
)
from app.link import calls
from app.link.job_messages import JobControl

RAGGED = {
    "data": {"array": "frames", "lengths": "lengths"},
    "lengths": {"array": "lengths"},
    "softmax_label": {"array": "labels"},
}
RECORD = ModuleRecord(name="net", symbols={})


def run(driver, jobs, kind: JobKind, **params) -> dict:
    driver.ask(jobs.start(RECORD, {"dataset": "toy", "batch_size": 8, **params}, kind=kind))
    return driver.run_jobs()


@pytest.mark.parametrize("batch_size", [1, 7, 8, 50, 64])
def test_a_score_counts_every_example_once(driver, jobs, toy_data, batch_size):
    jobs.dataset("toy", toy_data)
    driver.ready()
    last = run(driver, jobs, JobKind.SCORE, batch_size=batch_size, metrics=["acc", "ce"])
    _, outputs = driver.ask(calls.Predict(module="net"), data=toy_data["data"])
    probabilities, labels = outputs["softmax_output"], toy_data["softmax_label"]
    chosen = probabilities[np.arange(50), labels]
    metrics = last["result"]["metrics"]
    assert metrics["accuracy"] == float((probabilities.argmax(axis=1) == labels).mean())
    assert metrics["cross-entropy"] == pytest.approx(float(-np.log(chosen).mean()), rel=1e-5)
    assert metrics["loss"] == pytest.approx(metrics["cross-entropy"], rel=1e-5)
    assert last["result"]["samples"] == 50


def test_a_score_does_not_disturb_a_training_step(driver, fresh_driver, jobs, toy_data):
    jobs.dataset("toy", toy_data)
    batch = {name: array[:8] for name, array in toy_data.items()}
    other = fresh_driver()
    for one in (driver, other):
        one.ready()
        one.ask(calls.Forward(module="net", is_train=True), **batch)
    assert run(driver, jobs, JobKind.SCORE)["type"] == "done"
    for one in (driver, other):
        one.ask(calls.Forward(module="net", is_train=True), **batch)
        one.ask(calls.Backward(module="net"))
        one.ask(calls.Update(module="net"))
    for name, value in driver.params().items():
        np.testing.assert_array_equal(value, other.params()[name])


def test_a_score_of_some_batches(driver, jobs, toy_data):
    jobs.dataset("toy", toy_data)
    driver.ready()
    last = run(driver, jobs, JobKind.SCORE, num_batch=3)
    assert last["result"]["samples"] == 24
    progress = driver.of_type("progress")[-1]
    assert (progress["batch"], progress["batches"]) == (3, 3)


def test_a_score_in_buckets(driver, jobs, toy_sequences):
    jobs.dataset("toy", toy_sequences)
    driver.create_buckets((4, 7, 9), default=9)
    driver.bind_buckets(9, (4, 7))
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=1, initializer="normal")))
    last = run(driver, jobs, JobKind.SCORE, inputs=RAGGED)
    params = driver.params()
    starts = np.cumsum(toy_sequences["lengths"]) - toy_sequences["lengths"]
    means = np.stack(
        [
            toy_sequences["frames"][start : start + length].mean(axis=0)
            for start, length in zip(starts, toy_sequences["lengths"], strict=True)
        ]
    )
    answers = (means @ params["fc_weight"].T + params["fc_bias"]).argmax(axis=1)
    expected = float((answers == toy_sequences["labels"]).mean())
    assert last["result"]["metrics"]["accuracy"] == expected


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"metrics": ["top_k_accuracy", "f1"]}, "metrics[0]"),
        ({"inputs": {"data": {"array": "x"}}}, "inputs.data.array"),
        ({"inputs": {"data": {"array": "data", "shape": [3, 2]}}}, "data"),
        ({"bucket_keys": [4]}, "bucket_keys"),
    ],
)
def test_invalid_scores_are_refused(driver, jobs, toy_data, params, field):
    jobs.dataset("toy", toy_data)
    driver.ready()
    last = run(driver, jobs, JobKind.SCORE, **params)
    assert (last["type"], last["code"], last["field"]) == ("failed", "invalid", field)
    driver.ask(calls.Predict(module="net"), data=toy_data["data"])


@pytest.mark.parametrize("kind", [JobKind.SCORE, JobKind.PREDICT])
@pytest.mark.parametrize(
    ("action", "event"), [(JobAction.PAUSE, "paused"), (JobAction.CANCEL, "cancelled")]
)
def test_a_pass_stops_when_asked(driver, jobs, toy_data, kind, action, event):
    jobs.dataset("toy", toy_data)
    driver.ready()
    params = {"dataset": "toy", "batch_size": 8} | (
        {"output": "o"} if kind is JobKind.PREDICT else {}
    )
    driver.ask(jobs.start(RECORD, params, kind=kind))
    driver.advance()
    driver.advance()
    driver.ask(JobControl(job_id=1, attempt=1, action=action))
    assert driver.run_jobs()["type"] == event
    assert not (jobs.folder / "output.npz").exists()


def test_predictions_are_written_in_the_order_of_the_dataset(driver, jobs, toy_data):
    jobs.dataset("toy", toy_data)
    driver.ready()
    last = run(driver, jobs, JobKind.PREDICT, output="answers")
    assert last["result"] == {
        "output": "answers",
        "samples": 50,
        "shapes": {"output0": [50, 3]},
    }
    _, outputs = driver.ask(calls.Predict(module="net"), data=toy_data["data"])
    with np.load(jobs.folder / "output.npz") as written:
        np.testing.assert_allclose(
            written["output0"], outputs["softmax_output"], rtol=1e-5, atol=1e-7
        )
    assert sorted(os.listdir(jobs.folder)) == ["output.npz", "toy.npz"]


def test_predictions_in_buckets_keep_order_and_lengths(driver, jobs, toy_sequences):
    jobs.dataset("toy", toy_sequences)

    def network(length: int) -> str:
        data = mx.sym.Variable("data")
        return mx.sym.Activation(data, act_type="relu", name="steps").tojson()

    record = ModuleRecord(
        name="net",
        kind=ModuleKind.BUCKETING,
        symbols={str(n): network(n) for n in (4, 9)},
        default_bucket_key="9",
        label_names=(),
    )
    driver.ask(calls.CreateModule(record=record))

    def shapes(length: int) -> tuple[InputDesc, ...]:
        return (InputDesc(name="data", shape=(4, length, 6), layout="NTC"),)

    spec = BindSpec(
        data_shapes=shapes(9),
        for_training=False,
        buckets={"4": BucketShapes(data_shapes=shapes(4))},
    )
    driver.ask(calls.Bind(module="net", spec=spec))
    driver.ask(calls.SetParams(module="net"))
    inputs = {"data": {"array": "frames", "lengths": "lengths"}}
    assert run(driver, jobs, JobKind.PREDICT, output="o", inputs=inputs)["type"] == "done"
    with np.load(jobs.folder / "output.npz") as written:
        counts = written["output0_lengths"]
        assert counts.tolist() == [4 if n <= 4 else 9 for n in toy_sequences["lengths"]]
        starts = np.cumsum(toy_sequences["lengths"]) - toy_sequences["lengths"]
        begins = np.cumsum(counts) - counts
        for row in range(50):
            length = toy_sequences["lengths"][row]
            frames = toy_sequences["frames"][starts[row] : starts[row] + length]
            got = written["output0"][begins[row] : begins[row] + length]
            np.testing.assert_array_equal(got, np.maximum(frames, 0))


def test_outputs_without_one_row_per_example_cannot_become_a_dataset(driver, jobs, toy_data):
    jobs.dataset("toy", toy_data)
    net = mx.sym.sum(mx.sym.Variable("data"), name="total")
    record = ModuleRecord(name="net", symbols={SINGLE: net.tojson()}, label_names=())
    driver.ask(calls.CreateModule(record=record))
    spec = BindSpec(data_shapes=(InputDesc(name="data", shape=(8, 6)),), for_training=False)
    driver.ask(calls.Bind(module="net", spec=spec))
    driver.ask(calls.SetParams(module="net"))
    assert run(driver, jobs, JobKind.PREDICT, output="o")["code"] == "conflict"


def test_a_module_without_parameters_cannot_score(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    driver.create(make_network())
    last = run(driver, jobs, JobKind.SCORE)
    assert (last["type"], last["code"]) == ("failed", "wrong_stage")


def test_a_full_disk_leaves_no_partial_output(driver, jobs, toy_data, monkeypatch):
    jobs.dataset("toy", toy_data)
    driver.ready()
    before = set(jobs.folder.iterdir())

    def no_room(file, **arrays):
        file.write(b"half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", no_room)
        last = run(driver, jobs, JobKind.PREDICT, output="answers")
    assert (last["type"], last["code"]) == ("failed", "storage_full")
    assert set(jobs.folder.iterdir()) == before
