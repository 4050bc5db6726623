"""A fit that diverges leaves its module as it was at its last checkpoint, or before the fit."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from app.domain.job import JobAction
from app.domain.module import InitSpec
from app.executor.jobs import training
from app.link import calls
from app.link.job_messages import JobControl
from served.fits import fit_params

WILD = {"name": "sgd", "options": {"learning_rate": 1e38, "momentum": 0.9}}
Params = dict[str, np.ndarray]


def run(driver: Any, jobs: Any, record: Any, job_id: int = 1, **changes: Any) -> dict[str, Any]:
    driver.ask(jobs.start(record, fit_params(**changes), job_id=job_id))
    return driver.run_jobs()


def same(found: Params, expected: Params) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def prepared(driver: Any, symbol: Any) -> Any:
    record = driver.create(symbol)
    driver.bind()
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=3)))
    return record


def ruin(engine: Any) -> None:
    """Make all parameters NaN."""
    arguments, auxiliary = engine.get_params()
    engine.set_params({name: one * np.nan for name, one in arguments.items()}, auxiliary)


@pytest.mark.parametrize("batch_norm", [False, True])
def test_a_diverged_fit_leaves_the_parameters_from_before_it(
    driver: Any, jobs: Any, make_network: Any, toy_data: Params, batch_norm: bool
) -> None:
    jobs.dataset("toy", toy_data)
    record = prepared(driver, make_network(batch_norm=batch_norm))
    before = driver.params()
    last = run(driver, jobs, record, optimizer=WILD)
    assert (last["type"], last["code"], last["field"]) == ("failed", "invalid", "optimizer")
    assert "lower the learning rate" in last["message"]
    assert not last["is_unsaved"]
    same(driver.params(), before)
    _, outputs = driver.ask(calls.Predict(module="net"), data=toy_data["data"])
    assert np.isfinite(outputs["softmax_output"]).all()
    assert driver.describe()["memory"]["job_data"] == 0


def test_the_next_fit_trains_as_if_there_had_been_no_other(
    driver: Any, fresh_driver: Any, jobs: Any, make_network: Any, toy_data: Params
) -> None:
    jobs.dataset("toy", toy_data)
    record = prepared(driver, make_network())
    run(driver, jobs, record, optimizer=WILD)
    assert run(driver, jobs, record, job_id=2)["type"] == "done"
    other = fresh_driver()
    record = prepared(other, make_network())
    assert run(other, jobs, record, job_id=2)["type"] == "done"
    same(driver.params(), other.params())


def test_a_fit_that_diverges_later_returns_to_its_newest_checkpoint(
    driver: Any, jobs: Any, make_network: Any, toy_data: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.dataset("toy", toy_data)
    record = prepared(driver, make_network())
    update, updates = training.update_parameters, itertools.count(1)

    def blow_up(engine: Any) -> None:
        update(engine)
        if next(updates) == 17:  # of 7 in each epoch
            ruin(engine)

    monkeypatch.setattr(training, "update_parameters", blow_up)
    last = run(driver, jobs, record, epochs=4)
    assert (last["type"], last["code"]) == ("failed", "invalid")
    assert not last["is_unsaved"]
    newest = driver.of_type("checkpoint")[-1]["epoch"]
    assert newest == 2
    left = driver.params()
    driver.ask(calls.LoadCheckpoint(module="net", directory=str(jobs.root / "2")))
    same(left, driver.params())
    assert "checkpoint 2 again" in driver.of_type("log")[-1]["message"]


def test_parameters_that_become_nan_in_an_epochs_last_batch_are_no_checkpoint(
    driver: Any, jobs: Any, make_network: Any, toy_data: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.dataset("toy", toy_data)
    record = prepared(driver, make_network())
    before = driver.params()
    update = training.update_parameters
    monkeypatch.setattr(
        training, "update_parameters", lambda engine: (update(engine), ruin(engine))
    )
    # One batch an epoch: no later batch shows it.
    last = run(driver, jobs, record, epochs=1, batch_size=50)
    assert (last["type"], last["code"], last["field"]) == ("failed", "invalid", "optimizer")
    assert "holds NaN or infinity after epoch 1" in last["message"]
    assert driver.of_type("checkpoint") == []
    same(driver.params(), before)


def test_a_fit_cancelled_after_it_diverged_leaves_good_parameters(
    driver: Any, jobs: Any, make_network: Any, toy_data: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.dataset("toy", toy_data)
    record = prepared(driver, make_network())
    before = driver.params()

    def ruin_and_cancel(engine: Any) -> None:
        ruin(engine)
        driver.ask(JobControl(job_id=1, attempt=1, action=JobAction.CANCEL))

    monkeypatch.setattr(training, "update_parameters", ruin_and_cancel)
    last = run(driver, jobs, record)
    assert (last["type"], last["is_unsaved"]) == ("cancelled", False)
    same(driver.params(), before)


@pytest.mark.parametrize("batch_norm", [False, True])
def test_an_example_that_is_nan_is_named_and_nothing_it_touched_stays(
    driver: Any, jobs: Any, make_network: Any, toy_data: Params, batch_norm: bool
) -> None:
    toy_data["data"][20, 1] = np.nan
    jobs.dataset("toy", toy_data)
    record = prepared(driver, make_network(batch_norm=batch_norm))
    before = driver.params()
    last = run(driver, jobs, record, shuffle=False)
    assert (last["type"], last["code"], last["field"]) == ("failed", "invalid", "inputs.data")
    assert "example 20 of dataset 'toy' holds NaN" in last["message"]
    after = driver.params()
    assert all(np.isfinite(value).all() for value in after.values())
    # Moving averages have taken it up; without them, the training of two batches stays.
    assert (after["fc1_weight"] == before["fc1_weight"]).all() == batch_norm


def test_parameters_that_are_not_finite_are_neither_trained_nor_saved_nor_answer(
    driver: Any, jobs: Any, make_network: Any, toy_data: Params
) -> None:
    jobs.dataset("toy", toy_data)
    record = prepared(driver, make_network())
    good = driver.params()
    bad = {"fc2_bias": np.array([0, np.inf, 0], "f")}
    call = calls.SetParams(module="net", allow_missing=True, allow_nonfinite=True)
    driver.ask(call, **bad)
    last = run(driver, jobs, record)
    assert (last["type"], last["code"]) == ("failed", "conflict")
    assert "'fc2_bias'" in last["message"]
    assert "before the first batch; load a checkpoint" in last["message"]
    save = calls.SaveCheckpoint(module="net", root=str(jobs.root), epoch=7)
    for refused in (save, calls.Predict(module="net")):
        tensors = {"data": toy_data["data"]} if refused is not save else {}
        refusal = driver.refusal(refused, **tensors)
        assert refusal.code == "conflict"
        assert "'fc2_bias'" in refusal.message
    assert not (jobs.root / "7").exists()
    driver.ask(call, fc2_bias=good["fc2_bias"])
    driver.ask(save)
    assert run(driver, jobs, record, job_id=2)["type"] == "done"


def test_predictions_of_nan_are_answered_where_the_parameters_are_sound(driver: Any) -> None:
    driver.ready()
    data = np.full((2, 6), np.nan, "f")
    _, outputs = driver.ask(calls.Predict(module="net"), data=data)
    assert np.isnan(outputs["softmax_output"]).all()
