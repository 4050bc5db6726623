"""Fit jobs: results, reports, checkpoints. Expected values: the engine's ``Module.fit``."""

from __future__ import annotations

import numpy as np
import pytest

import core as mx
from app.files.checkpoint_files import list_tags, read_manifest, verify_checkpoint
from app.link import calls
from app.link.job_messages import event_from_wire
from served.fits import assert_equal_params, fit_params, reference_fit, run_fit
from served.perceptron import BATCH

# -- same results as Module.fit ----------------------------------------------------------------


@pytest.mark.parametrize("last_batch", ["pad", "discard", "roll_over"])
def test_a_fit_matches_module_fit(driver, jobs, make_network, toy_data, last_batch):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network(batch_norm=True))
    last = run_fit(driver, jobs, record, shuffle=False, last_batch=last_batch)
    assert last["type"] == "done", last
    expected = reference_fit(make_network(batch_norm=True), toy_data, last_batch=last_batch)
    assert_equal_params(driver.params(), expected)


def test_a_fit_on_several_devices_matches_too(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network(batch_norm=True), contexts=("cpu(0)", "cpu(1)"))
    assert run_fit(driver, jobs, record, shuffle=False)["type"] == "done"
    contexts = [mx.cpu(0), mx.cpu(1)]
    expected = reference_fit(make_network(batch_norm=True), toy_data, contexts=contexts)
    assert_equal_params(driver.params(), expected)


def test_a_scheduler_and_its_log_lines(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    scheduler = {"name": "factor", "step": 5, "factor": 0.5}
    options = {"learning_rate": 0.2, "momentum": 0.9, "lr_scheduler": scheduler}
    run_fit(driver, jobs, record, shuffle=False, optimizer={"options": options})
    expected = reference_fit(
        make_network(), toy_data, scheduler=mx.lr_scheduler.FactorScheduler(5, 0.5)
    )
    assert_equal_params(driver.params(), expected)
    lines = [event["message"] for event in driver.of_type("log")]
    assert any("learning rate is 1.00000e-01" in line for line in lines)


def test_shuffling_is_decided_by_the_seed(driver, fresh_driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    trained = []
    for seed in (1, 1, 2):
        one = fresh_driver()
        record = one.create(make_network(dropout=0.3))
        last = run_fit(one, jobs, record, seed=seed, epochs=20)
        assert last["result"]["train"]["accuracy"] > 0.8
        trained.append(one.params())
    assert_equal_params(trained[0], trained[1])
    assert not np.array_equal(trained[0]["fc1_weight"], trained[2]["fc1_weight"])


# -- what it reports ---------------------------------------------------------------------------


def test_every_report_is_a_message_the_dispatcher_can_read(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    run_fit(driver, jobs, record, validation={"dataset": "toy"})
    messages = [event_from_wire(event) for event in driver.events]
    assert all(message is not None for message in messages)
    assert {(message.job_id, message.attempt) for message in messages} == {(1, 1)}
    kinds = [message.type for message in messages]
    assert kinds[0] == "prepared"
    assert kinds[-1] == "done"
    assert kinds.count("metric") == 6
    assert kinds.count("checkpoint") == 3


def test_prepared_says_where_the_parameters_came_from(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    run_fit(driver, jobs, record)
    (prepared,) = driver.of_type("prepared")
    assert prepared["init"]["initializer"] == "xavier"
    assert prepared["init"]["seed"] == 4
    assert prepared["optimizer"]["options"]["momentum"] == 0.9
    assert prepared["bind"]["data_shapes"][0]["shape"] == [BATCH, 6]
    assert driver.describe()["stage"] == "ready"


def test_metrics_of_an_epoch_exclude_padding(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    last = run_fit(driver, jobs, record, validation={"dataset": "toy"}, metrics=["accuracy", "ce"])
    data, labels = toy_data["data"], toy_data["softmax_label"]
    _, outputs = driver.ask(calls.Predict(module="net"), data=data)
    probabilities = outputs["softmax_output"]
    accuracy = float((probabilities.argmax(axis=1) == labels).mean())
    entropy = float(-np.log(probabilities[np.arange(len(labels)), labels]).mean())
    validation = last["result"]["validation"]
    assert validation["accuracy"] == pytest.approx(accuracy)
    assert validation["cross-entropy"] == pytest.approx(entropy, rel=1e-5)
    assert validation["loss"] == pytest.approx(entropy, rel=1e-5)
    assert last["result"]["samples"] == 150


def test_progress_is_throttled_but_ends_complete(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    run_fit(driver, jobs, record, epochs=30)
    reports = driver.of_type("progress")
    assert len(reports) < 60
    ends = [report for report in reports if report["batch"] == report["batches"] == 7]
    assert [report["epoch"] for report in ends] == list(range(30))
    assert reports[-1]["samples"] == 1500
    assert 0 <= reports[-1]["metrics"]["accuracy"] <= 1


def test_callbacks_log_into_the_job(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    callbacks = {"speedometer": {"frequent": 2}, "log_train_metric": {"period": 3}}
    run_fit(driver, jobs, record, callbacks=callbacks)
    lines = [event["message"] for event in driver.of_type("log")]
    assert any("Speed" in line and "samples/sec" in line for line in lines)
    assert any(line.startswith("Iter[2] Batch[6] Train-accuracy") for line in lines)


def test_the_loss_of_a_regression(driver, jobs):
    rng = np.random.default_rng(0)
    data = rng.normal(size=(40, 6)).astype(np.float32)
    target = (data @ rng.normal(size=6)).astype(np.float32)
    jobs.dataset("toy", {"data": data, "target_label": target[:, None]})
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=1, name="fc")
    net = mx.sym.LinearRegressionOutput(net, mx.sym.Variable("target_label"), name="lin")
    record = driver.create(net, label_names=("target_label",))
    optimizer = {"options": {"learning_rate": 0.05}}
    last = run_fit(driver, jobs, record, epochs=40, metrics=["mse"], optimizer=optimizer)
    assert last["result"]["train"]["loss"] == pytest.approx(last["result"]["train"]["mse"])
    assert last["result"]["train"]["loss"] < 0.01 * float((target**2).mean())


# -- checkpoints -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cadence", "tags"),
    [
        ({"epochs": 1}, ["1", "2", "3"]),
        ({"epochs": 2}, ["2", "3"]),
        ({"epochs": 0}, ["3"]),
        ({"epochs": 0, "batches": 3}, ["0.3", "0.6", "1.3", "1.6", "2.3", "2.6", "3"]),
        ({"epochs": 0, "batches": 7}, ["1", "2", "3"]),  # the last batch of an epoch
        (
            {"epochs": 0, "seconds": 1e-9},
            [f"{e}.{b}".removesuffix(".0") for e in range(4) for b in range(7)][1:22],
        ),
    ],
)
def test_when_checkpoints_are_saved(driver, jobs, make_network, toy_data, cadence, tags):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    run_fit(driver, jobs, record, checkpoint=cadence)
    assert [str(tag) for tag in list_tags(jobs.root)] == tags
    reported = [(event["epoch"], event["batch"]) for event in driver.of_type("checkpoint")]
    assert reported == [tuple(tag) for tag in list_tags(jobs.root)]


def test_a_checkpoint_has_mxnets_files(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    network = make_network(batch_norm=True)
    record = driver.create(network)
    run_fit(driver, jobs, record, validation={"dataset": "toy"})
    manifest = read_manifest(jobs.root / "3")
    assert sorted(manifest.files) == [
        "net-0003.params",
        "net-0003.states",
        "net-symbol.json",
        "state.json",
    ]
    assert (manifest.job_id, manifest.attempt) == (1, 1)
    assert manifest.metrics["validation"]["accuracy"] > 0
    symbol, arguments, auxiliary = mx.model.load_checkpoint(str(jobs.root / "3" / "net"), 3)
    assert symbol.tojson() == network.tojson()
    for name, value in driver.params().items():
        saved = arguments.get(name, auxiliary.get(name))
        np.testing.assert_array_equal(saved.asnumpy(), value)


@pytest.mark.parametrize("length", [116, 117, 128])
def test_a_module_with_a_long_name_is_trained_and_saved(
    driver, jobs, make_network, toy_data, length
):
    name = "n" * length
    jobs.dataset("toy", toy_data)
    start = jobs.start(driver.create(make_network(), name=name), fit_params(epochs=1))
    driver.ask(start)
    assert driver.run_jobs()["type"] == "done"
    trained = driver.params(name)
    root = jobs.folder / name
    assert f"{name}-0001.params" in verify_checkpoint(root / "1").files
    driver.ask(calls.SaveCheckpoint(module=name, root=str(root), epoch=7))
    driver.ask(calls.LoadCheckpoint(module=name, directory=str(root / "7")))
    for key, value in driver.params(name).items():
        np.testing.assert_array_equal(value, trained[key])
