"""Invalid fits, and calls that a module refuses while in training."""

from __future__ import annotations

import errno

import numpy as np
import pytest

from app.domain.job import JobAction
from app.domain.module import InitSpec, OptimizerSpec
from app.files import checkpoint_files
from app.files.attempt_fence import FENCE
from app.link import calls
from app.link.job_messages import JobControl
from served.fits import fit_params, run_fit
from served.perceptron import BATCH


def test_a_module_in_training_refuses_calls_that_would_disturb_it(
    driver, jobs, make_network, toy_data
):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    driver.ask(jobs.start(record, fit_params()))
    for _ in range(6):
        driver.advance()
    batch = {name: array[:BATCH] for name, array in toy_data.items()}
    for call, tensors in (
        (calls.DeleteModule(module="net"), {}),
        (calls.Forward(module="net", backward=True), batch),
        (calls.Update(module="net"), {}),
        (calls.SetParams(module="net"), driver.params()),
        (calls.InitParams(module="net", spec=InitSpec()), {}),
        (calls.InitOptimizer(module="net", spec=OptimizerSpec()), {}),
        (jobs.start(record, fit_params(), job_id=2, is_admitted=False), {}),
    ):
        refusal = driver.refusal(call, **tensors)
        assert refusal.code == "in_use"
        assert "job 1" in refusal.message
    driver.ask(calls.Predict(module="net"), data=toy_data["data"])
    driver.ask(calls.DescribeModule(module="net"))
    assert driver.run_jobs()["type"] == "done"
    driver.ask(calls.DeleteModule(module="net"))


def test_an_older_attempt_cannot_act_for_a_newer_one(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    driver.ask(jobs.start(record, fit_params(), attempt=2))
    assert driver.refusal(jobs.start(record, fit_params(), attempt=1)).code == "superseded"
    assert driver.refusal(jobs.start(record, fit_params(), attempt=2)).code == "superseded"
    stale = JobControl(job_id=1, attempt=1, action=JobAction.CANCEL)
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
        *(
            ({"callbacks": {name: {option: bad}}}, "invalid", f"callbacks.{name}.{option}")
            for name, option in (("speedometer", "frequent"), ("log_train_metric", "period"))
            for bad in (None, 0, 1.5, "2", True)
        ),
        ({"metrics": ["f1"]}, "invalid", "metrics"),
        (
            {"validation": {"dataset": "toy", "inputs": {"data": {"array": "x"}}}},
            "invalid",
            "validation.inputs.data.array",
        ),
        ({"optimizer": {"options": {"learning_rate": 1e39}}}, "invalid", "optimizer"),
    ],
)
def test_an_invalid_fit_fails_naming_the_field(
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
    assert not driver.advance()
    driver.ask(jobs.start(record, fit_params()))


def test_nan_in_the_data_is_found_before_it_ruins_the_parameters(
    driver, jobs, make_network, toy_data
):
    toy_data["data"][20] = np.nan
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    last = run_fit(driver, jobs, record, shuffle=False)
    assert last["type"] == "failed"
    assert "epoch 0, batch 2 of 7" in last["message"]
    assert all(np.isfinite(value).all() for value in driver.params().values())


def test_a_full_disk_fails_a_fit_with_advice(
    driver, jobs, make_network, toy_data, monkeypatch, caplog
):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    monkeypatch.setattr(checkpoint_files, "_write_manifest", no_room)
    last = run_fit(driver, jobs, record)
    assert (last["type"], last["code"]) == ("failed", "storage_full")
    assert "give it more room" in last["message"]
    assert [path.name for path in jobs.root.iterdir()] == [FENCE]
    assert not driver.host.has_work()


def no_room(*arguments: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_fit_does_not_resume_from_a_damaged_checkpoint(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    run_fit(driver, jobs, record)
    path = jobs.root / "2" / "net-0002.params"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    last = run_fit(driver, jobs, record, resume="2", attempt=2)
    assert (last["type"], last["code"]) == ("failed", "damaged")


def test_a_job_of_a_module_not_in_memory_waits_for_its_restore(
    driver, jobs, make_network, toy_data
):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    driver.ask(calls.DeleteModule(module="net"))
    assert driver.refusal(jobs.start(record, fit_params())).code == "not_resident"
    driver.ask(calls.RestoreModule(record=record))
    assert run_fit(driver, jobs, record)["type"] == "done"


def test_a_fit_does_not_replace_lost_parameters(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    driver.ask(calls.DeleteModule(module="net"))
    driver.ask(calls.RestoreModule(record=record.with_set_params().evolve(lost=True)))
    assert run_fit(driver, jobs, record)["code"] == "params_lost"


def test_grad_req_add_is_refused(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    driver.bind(grad_req="add")
    assert run_fit(driver, jobs, record)["code"] == "conflict"
