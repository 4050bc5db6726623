"""Fit as a job. Expected numbers: the engine's own ``Module.fit``."""

from __future__ import annotations

import errno

import numpy as np
import pytest

import core as mx
from app.domain.job import Request
from app.domain.module import InitSpec, ModuleRecord, OptimizerSpec
from app.services import checkpoint_files
from app.services.checkpoint_files import list_tags, read_manifest
from app.worker import calls
from app.worker.job_messages import JobControl, event_from_wire

BATCH = 8


def fit_params(**changes) -> dict:
    """Return the parameters of a short fit."""
    return {
        "dataset": "toy",
        "epochs": 3,
        "batch_size": BATCH,
        "optimizer": {"name": "sgd", "options": {"learning_rate": 0.2, "momentum": 0.9}},
        "initializer": {"initializer": "xavier", "seed": 4},
        **changes,
    }


def run_fit(driver, jobs, record: ModuleRecord, **changes) -> dict:
    """Run a fit to its end and return its last event."""
    resume, attempt = changes.pop("resume", None), changes.pop("attempt", 1)
    start = jobs.start(record, fit_params(**changes), resume=resume, attempt=attempt)
    driver.ask(start)
    return driver.run_jobs()


def reference_fit(symbol, data, *, contexts=None, last_batch="pad", epochs=3, scheduler=None):
    """Train with the engine's own module; return its parameters."""
    position = mx.random.get_state()
    module = mx.mod.Module(symbol, context=contexts or mx.cpu())
    iterator = mx.io.NDArrayIter(
        data["data"],
        data["softmax_label"].astype(np.float32),
        BATCH,
        last_batch_handle=last_batch,
    )
    mx.random.seed(4)
    options = {"learning_rate": 0.2, "momentum": 0.9}
    if scheduler is not None:
        options["lr_scheduler"] = scheduler
    initializer = mx.init.Xavier()
    module.fit(iterator, num_epoch=epochs, optimizer_params=options, initializer=initializer)
    mx.random.set_state(position)
    arguments, auxiliary = module.get_params()
    return {name: value.asnumpy() for name, value in {**arguments, **auxiliary}.items()}


def assert_equal_params(got, expected) -> None:
    assert got.keys() == expected.keys()
    for name, value in got.items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


# -- the same numbers as Module.fit ------------------------------------------------------------


@pytest.mark.parametrize("last_batch", ["pad", "discard", "roll_over"])
def test_a_fit_has_the_numbers_of_the_engines_own(driver, jobs, make_network, toy_data, last_batch):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network(batch_norm=True))
    last = run_fit(driver, jobs, record, shuffle=False, last_batch=last_batch)
    assert last["type"] == "done", last
    expected = reference_fit(make_network(batch_norm=True), toy_data, last_batch=last_batch)
    assert_equal_params(driver.params(), expected)


def test_on_several_devices_too(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network(batch_norm=True), contexts=("cpu(0)", "cpu(1)"))
    assert run_fit(driver, jobs, record, shuffle=False)["type"] == "done"
    contexts = [mx.cpu(0), mx.cpu(1)]
    expected = reference_fit(make_network(batch_norm=True), toy_data, contexts=contexts)
    assert_equal_params(driver.params(), expected)


def test_a_scheduler_and_what_it_logs(driver, jobs, make_network, toy_data):
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


def test_shuffling_learns_and_is_decided_by_the_seed(
    driver, fresh_driver, jobs, make_network, toy_data
):
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


def test_every_report_is_a_message_the_dispatcher_reads(driver, jobs, make_network, toy_data):
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


def test_prepared_says_how_the_module_came_to_be_ready(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    run_fit(driver, jobs, record)
    (prepared,) = driver.of_type("prepared")
    assert prepared["init"]["initializer"] == "xavier"
    assert prepared["init"]["seed"] == 4
    assert prepared["optimizer"]["options"]["momentum"] == 0.9
    assert prepared["bind"]["data_shapes"][0]["shape"] == [BATCH, 6]
    assert driver.describe()["stage"] == "READY"


def test_metrics_of_an_epoch_leave_padding_out(driver, jobs, make_network, toy_data):
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


def test_progress_is_throttled_and_ends_complete(driver, jobs, make_network, toy_data):
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
        (
            {"epochs": 0, "seconds": 1e-9},
            [f"{e}.{b}" for e in range(3) for b in range(1, 7)] + ["3"],
        ),
    ],
)
def test_when_it_saves(driver, jobs, make_network, toy_data, cadence, tags):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    run_fit(driver, jobs, record, checkpoint=cadence)
    assert [str(tag) for tag in list_tags(jobs.root)] == tags
    reported = [(event["epoch"], event["batch"]) for event in driver.of_type("checkpoint")]
    assert reported == [tuple(tag) for tag in list_tags(jobs.root)]


def test_a_checkpoint_is_what_mxnet_users_know(driver, jobs, make_network, toy_data):
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


# -- going on ----------------------------------------------------------------------------------

CADENCES = {"epochs": 1, "batches": 3}


@pytest.mark.parametrize("contexts", [("cpu(0)",), ("cpu(0)", "cpu(1)")])
@pytest.mark.parametrize(
    "optimizer",
    [
        {"name": "sgd", "options": {"learning_rate": 0.2, "momentum": 0.9}},
        {
            "name": "adam",
            "options": {
                "learning_rate": 0.05,
                "lr_scheduler": {"name": "factor", "step": 4, "factor": 0.7},
            },
        },
    ],
)
@pytest.mark.parametrize("tag", ["0.3", "1", "1.3", "2", "3"])
def test_from_any_checkpoint_it_ends_with_the_same_bits(
    driver, fresh_driver, jobs, make_network, toy_data, tag, optimizer, contexts
):
    jobs.dataset("toy", toy_data)
    symbol = make_network(dropout=0.4, batch_norm=True)
    changes = {
        "optimizer": optimizer,
        "checkpoint": CADENCES,
        "last_batch": "roll_over",
        "validation": {"dataset": "toy"},
        "metrics": ["accuracy", "mse"],
    }
    record = driver.create(symbol, contexts=contexts)
    expected = run_fit(driver, jobs, record, **changes)
    assert expected["type"] == "done"

    other = fresh_driver()
    record = other.create(symbol, contexts=contexts)
    last = run_fit(other, jobs, record, **changes, resume=tag, attempt=2)
    assert last["type"] == "done", last
    assert_equal_params(other.params(), driver.params())
    states = [
        each.ask(calls.GetOptimizerStates(module="net"))[1]["states"].tobytes()
        for each in (driver, other)
    ]
    assert states[0] == states[1]
    assert without_seconds(last["result"]) == without_seconds(expected["result"])
    after = [event for event in driver.of_type("metric") if event["epoch"] >= int(tag[0])]
    got = [(e["epoch"], e["part"], e["metrics"]) for e in other.of_type("metric")]
    assert got == [(e["epoch"], e["part"], e["metrics"]) for e in after]


def without_seconds(result: dict) -> dict:
    return {name: value for name, value in result.items() if name != "seconds"}


def test_what_others_do_in_between_does_not_matter(
    driver, fresh_driver, jobs, make_network, toy_data
):
    jobs.dataset("toy", toy_data)
    symbol = make_network(dropout=0.4, batch_norm=True)
    alone = fresh_driver()
    run_fit(alone, jobs, alone.create(symbol))
    record = driver.create(symbol)
    other = driver.create(symbol, name="other")
    driver.ask(jobs.start(record, fit_params()))
    driver.ask(jobs.start(other, fit_params(seed=9), job_id=2))
    while driver.host.has_work():
        driver.host.advance()
        if driver.describe()["stage"] == "READY":
            driver.ask(calls.Predict(module="net"), data=toy_data["data"][:5])
            driver.ask(calls.GetParams(module="net"))
    assert_equal_params(driver.params(), alone.params())


def test_a_job_that_dies_before_its_first_checkpoint_begins_the_same_again(
    driver, fresh_driver, jobs, make_network, toy_data
):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network(dropout=0.4))
    driver.ask(jobs.start(record, fit_params()))
    for _ in range(8):
        driver.host.advance()
    (prepared,) = driver.of_type("prepared")

    # The server brings the module back as the record says, and the job begins anew.
    again = fresh_driver()
    record = again.create(make_network(dropout=0.4))
    again.bind()
    again.ask(calls.InitParams(module="net", spec=InitSpec(**prepared["init"])))
    again.ask(calls.InitOptimizer(module="net", spec=OptimizerSpec(**prepared["optimizer"])))
    assert run_fit(again, jobs, record, attempt=2)["type"] == "done"
    driver.run_jobs()
    assert_equal_params(again.params(), driver.params())


def test_parameters_that_are_nowhere_else_are_saved_before_the_first_batch(
    driver, fresh_driver, jobs, make_network, toy_data
):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    driver.bind()
    driver.ask(calls.InitParams(module="net", spec=InitSpec()))
    run_fit(driver, jobs, record, checkpoint={"epochs": 0})
    assert [str(tag) for tag in list_tags(jobs.root)] == ["0", "3"]
    other = fresh_driver()
    last = run_fit(
        other, jobs, other.create(make_network()), resume="0", attempt=2, checkpoint={"epochs": 0}
    )
    assert last["type"] == "done", last
    assert_equal_params(other.params(), driver.params())


def test_nobodys_checkpoint_is_replaced_by_what_a_fit_begins_with(
    driver, jobs, make_network, toy_data
):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    driver.bind()
    driver.ask(calls.InitParams(module="net", spec=InitSpec()))
    driver.ask(calls.SaveCheckpoint(module="net", root=str(jobs.root), epoch=0))
    before = read_manifest(jobs.root / "0")
    driver.ask(calls.InitParams(module="net", spec=InitSpec()))
    run_fit(driver, jobs, record)
    assert read_manifest(jobs.root / "0") == before
    (warning,) = [event for event in driver.of_type("log") if event["level"] == "warning"]
    assert "checkpoint 0 is there already" in warning["message"]


def test_a_fit_takes_the_modules_own_optimizer_where_it_has_none(
    driver, jobs, make_network, toy_data
):
    jobs.dataset("toy", toy_data)
    driver.ready(learning_rate=0.05)
    record = ModuleRecord(name="net", symbols={})
    last = run_fit(driver, jobs, record, optimizer=None)
    assert last["type"] == "done", last
    assert driver.describe()["optimizer"]["options"] == {"learning_rate": 0.05}
    assert driver.describe()["optimizer"]["num_update"] == 21


# -- stopping ----------------------------------------------------------------------------------


def stop_after(driver, batches: int, action: Request) -> dict:
    while driver.host.has_work():
        driver.host.advance()
        if sum(event["type"] == "prepared" for event in driver.events):
            if batches == 0:
                driver.ask(JobControl(job_id=1, attempt=1, action=action))
            batches -= 1
    return driver.events[-1]


@pytest.mark.parametrize("batches", [0, 1, 5, 7, 8])
def test_a_paused_fit_goes_on_with_the_same_bits(
    driver, fresh_driver, jobs, make_network, toy_data, batches
):
    jobs.dataset("toy", toy_data)
    symbol = make_network(dropout=0.4)
    changes = {"validation": {"dataset": "toy"}, "checkpoint": {"epochs": 0}}
    whole = fresh_driver()
    expected = run_fit(whole, jobs, whole.create(symbol), **changes)

    driver.ask(jobs.start(driver.create(symbol), fit_params(**changes)))
    assert stop_after(driver, batches, Request.PAUSE) == {
        "type": "paused",
        "job_id": 1,
        "attempt": 1,
    }
    saved = driver.of_type("checkpoint")[-1]
    assert driver.events[-2]["type"] == "checkpoint"
    tag = f"{saved['epoch']}.{saved['batch']}" if saved["batch"] else str(saved["epoch"])
    other = fresh_driver()
    last = run_fit(other, jobs, other.create(symbol), resume=tag, attempt=2, **changes)
    assert without_seconds(last["result"]) == without_seconds(expected["result"])
    assert_equal_params(other.params(), whole.params())


def test_a_cancelled_fit_stops_after_the_batch_in_work(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    driver.ask(jobs.start(record, fit_params()))
    assert stop_after(driver, 3, Request.CANCEL)["type"] == "cancelled"
    assert not driver.of_type("checkpoint")
    assert driver.describe()["job_id"] is None
    assert driver.describe()["has_unsaved"]
    driver.ask(calls.Predict(module="net"), data=toy_data["data"])


# -- what is refused ---------------------------------------------------------------------------


def test_a_module_in_training_refuses_what_would_disturb_it(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    driver.ask(jobs.start(record, fit_params()))
    for _ in range(6):
        driver.host.advance()
    batch = {name: array[:BATCH] for name, array in toy_data.items()}
    for call, tensors in (
        (calls.DeleteModule(module="net"), {}),
        (calls.Forward(module="net", backward=True), batch),
        (calls.Update(module="net"), {}),
        (calls.SetParams(module="net"), driver.params()),
        (calls.InitParams(module="net", spec=InitSpec()), {}),
        (calls.InitOptimizer(module="net", spec=OptimizerSpec()), {}),
        (jobs.start(record, fit_params(), job_id=2), {}),
    ):
        refusal = driver.refusal(call, **tensors)
        assert refusal.code == "in_use"
        assert "job 1" in refusal.message
    driver.ask(calls.Predict(module="net"), data=toy_data["data"])
    driver.ask(calls.DescribeModule(module="net"))
    assert driver.run_jobs()["type"] == "done"
    driver.ask(calls.DeleteModule(module="net"))


def test_attempts_fence_one_another(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    driver.ask(jobs.start(record, fit_params(), attempt=2))
    assert driver.refusal(jobs.start(record, fit_params(), attempt=1)).code == "superseded"
    assert driver.refusal(jobs.start(record, fit_params(), attempt=2)).code == "superseded"
    stale = JobControl(job_id=1, attempt=1, action=Request.CANCEL)
    assert driver.refusal(stale).code == "not_found"
    driver.ask(jobs.start(record, fit_params(), attempt=3))
    assert driver.run_jobs() | {"result": None} == {
        "type": "done",
        "job_id": 1,
        "attempt": 3,
        "result": None,
    }
    assert {event["attempt"] for event in driver.events} == {3}


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({"inputs": {"dta": {"array": "data"}}}, "invalid", "inputs.dta"),
        ({"inputs": {"data": {"array": "dta"}}}, "invalid", "inputs.data.array"),
        ({"inputs": {"data": {"array": "short"}}}, "invalid", "inputs.softmax_label"),
        ({"inputs": {"data": {"array": "data", "shape": [7]}}}, "invalid", "inputs.data.shape"),
        (
            {"inputs": {"data": {"array": "data", "lengths": "softmax_label"}}},
            "invalid",
            "inputs.data.lengths",
        ),
        (
            {"inputs": {"softmax_label": {"array": "absent"}}},
            "invalid",
            "inputs.softmax_label.array",
        ),
        ({"batch_size": 100, "last_batch": "discard"}, "invalid", "batch_size"),
        ({"begin_epoch": 3}, "invalid", "begin_epoch"),
        ({"bucket_keys": [3]}, "invalid", "bucket_keys"),
        ({"initializer": {"initializer": "nonsense"}}, "invalid", "initializer.initializer"),
        ({"optimizer": {"name": "sgdd"}}, "invalid", "optimizer.name"),
        ({"optimizer": None}, "invalid", "optimizer"),
        ({"callbacks": {"email": {}}}, "invalid", "callbacks.email"),
        ({"callbacks": {"speedometer": {"often": 2}}}, "invalid", "callbacks.speedometer"),
        ({"metrics": ["f1"]}, "invalid", "metrics"),
        (
            {"validation": {"dataset": "toy", "inputs": {"data": {"array": "x"}}}},
            "invalid",
            "validation.inputs.data.array",
        ),
        ({"optimizer": {"options": {"learning_rate": 1e39}}}, "invalid", "optimizer"),
    ],
)
def test_a_fit_that_cannot_work_fails_with_the_field(
    driver, jobs, make_network, toy_data, changes, code, field
):
    jobs.dataset("toy", toy_data | {"short": toy_data["data"][:3]})
    record = driver.create(make_network())
    last = run_fit(driver, jobs, record, **changes)
    assert last["type"] == "failed", last
    assert (last["code"], last["field"]) == (code, field)
    assert driver.describe()["job_id"] is None


def test_unknown_metrics_are_refused_at_once(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    refusal = driver.refusal(jobs.start(record, fit_params(metrics=["acuracy"])))
    assert (refusal.code, refusal.field_name) == ("invalid", "metrics[0]")
    assert not driver.host.has_work()
    driver.ask(jobs.start(record, fit_params()))


def test_nan_in_the_data_is_found_before_the_parameters_are_lost(
    driver, jobs, make_network, toy_data
):
    toy_data["data"][20] = np.nan
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    last = run_fit(driver, jobs, record, shuffle=False)
    assert last["type"] == "failed"
    assert "epoch 0, batch 2 of 7" in last["message"]
    assert all(np.isfinite(value).all() for value in driver.params().values())


def test_a_full_disk_ends_a_fit_with_what_to_do(
    driver, jobs, make_network, toy_data, monkeypatch, caplog
):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    monkeypatch.setattr(checkpoint_files, "_write_manifest", no_room)
    last = run_fit(driver, jobs, record)
    assert (last["type"], last["code"]) == ("failed", "storage_full")
    assert "give it more room" in last["message"]
    assert not [path for path in jobs.root.iterdir() if path.name.startswith(".")]
    assert driver.describe()["job_id"] is None


def no_room(*arguments: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_damaged_checkpoint_is_not_gone_on_from(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    run_fit(driver, jobs, record)
    path = jobs.root / "2" / "net-0002.params"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    last = run_fit(driver, jobs, record, resume="2", attempt=2)
    assert (last["type"], last["code"]) == ("failed", "damaged")


def test_a_record_is_made_a_module_where_it_is_not_held(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    driver.ask(calls.DeleteModule(module="net"))
    assert run_fit(driver, jobs, record)["type"] == "done"


def test_gradients_that_are_added_up_are_refused(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    driver.bind(grad_req="add")
    assert run_fit(driver, jobs, record)["code"] == "conflict"


# -- buckets -----------------------------------------------------------------------------------

RAGGED = {
    "data": {"array": "frames", "lengths": "lengths"},
    "lengths": {"array": "lengths"},
    "softmax_label": {"array": "labels"},
}


def bucket_params(**changes) -> dict:
    return fit_params(dataset="sequences", inputs=RAGGED, epochs=15, batch_size=4, **changes)


def test_sequences_are_learnt_in_buckets(driver, jobs, toy_sequences):
    jobs.dataset("sequences", toy_sequences)
    record = driver.create_buckets((4, 7, 9), default=9)
    driver.ask(
        jobs.start(record, bucket_params(validation={"dataset": "sequences", "inputs": RAGGED}))
    )
    last = driver.run_jobs()
    assert last["result"]["validation"]["accuracy"] > 0.9
    assert sorted(driver.describe()["buckets"]) == ["4", "7", "9"]
    assert last["result"]["samples"] == 15 * 50
    assert sorted(read_manifest(jobs.root / "15").files) == [
        "net-0015.params",
        "net-0015.states",
        "net-4-symbol.json",
        "net-7-symbol.json",
        "net-9-symbol.json",
        "net.buckets",
        "state.json",
    ]


def test_buckets_go_on_with_the_same_bits(driver, fresh_driver, jobs, toy_sequences):
    jobs.dataset("sequences", toy_sequences)
    changes = {"checkpoint": {"epochs": 0, "batches": 5}}
    record = driver.create_buckets((4, 7, 9), default=9)
    driver.ask(jobs.start(record, bucket_params(**changes)))
    driver.run_jobs()
    other = fresh_driver()
    record = other.create_buckets((4, 7, 9), default=9)
    other.ask(jobs.start(record, bucket_params(**changes), resume="7.10", attempt=2))
    other.run_jobs()
    assert_equal_params(other.params(), driver.params())


def test_sequences_longer_than_all_buckets_are_left_out_and_counted(driver, jobs, toy_sequences):
    jobs.dataset("sequences", toy_sequences)
    record = driver.create_buckets((4, 7), default=7)
    driver.ask(jobs.start(record, bucket_params()))
    last = driver.run_jobs()
    kept = int((toy_sequences["lengths"] <= 7).sum())
    assert last["result"]["samples"] == 15 * kept
    (warning,) = [event for event in driver.of_type("log") if event["level"] == "warning"]
    assert warning["message"].startswith(f"{50 - kept} of 50 examples are longer")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"bucket_keys": [4, 5]}, "bucket_keys"),
        ({"last_batch": "roll_over"}, "last_batch"),
        ({"inputs": {**RAGGED, "data": {"array": "frames"}}}, "inputs.lengths"),
        (
            {"inputs": {**RAGGED, "data": {"array": "frames", "lengths": "labels"}}},
            "inputs.data.lengths",
        ),
    ],
)
def test_buckets_that_cannot_work(driver, jobs, toy_sequences, changes, field):
    jobs.dataset("sequences", toy_sequences)
    record = driver.create_buckets((4, 9), default=9)
    driver.ask(jobs.start(record, bucket_params() | changes))
    last = driver.run_jobs()
    assert (last["type"], last["field"]) == ("failed", field)
