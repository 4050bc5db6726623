"""A fit that stops or dies and resumes as if nothing had happened."""

from __future__ import annotations

import pytest

from app.domain.job import JobAction
from app.domain.module import InitSpec, ModuleRecord, OptimizerSpec
from app.files.checkpoint_files import admit_attempt, list_tags, read_manifest
from app.link import calls
from app.link.job_messages import JobControl
from served.fits import assert_equal_params, fit_params, run_fit, without_seconds

# -- resuming ----------------------------------------------------------------------------------

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
def test_resuming_from_any_checkpoint_ends_with_the_same_bits(
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


def test_calls_by_others_in_between_do_not_matter(
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
    while driver.advance():
        if driver.describe()["stage"] == "ready":
            driver.ask(calls.Predict(module="net"), data=toy_data["data"][:5])
            driver.ask(calls.GetParams(module="net"))
    assert_equal_params(driver.params(), alone.params())


def test_a_job_that_dies_before_its_first_checkpoint_restarts_identically(
    driver, fresh_driver, jobs, make_network, toy_data
):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network(dropout=0.4))
    driver.ask(jobs.start(record, fit_params()))
    for _ in range(8):
        driver.advance()
    (prepared,) = driver.of_type("prepared")

    # The server restores the module as recorded, and the job starts over.
    again = fresh_driver()
    record = again.create(make_network(dropout=0.4))
    again.bind()
    again.ask(calls.InitParams(module="net", spec=InitSpec(**prepared["init"])))
    again.ask(calls.InitOptimizer(module="net", spec=OptimizerSpec(**prepared["optimizer"])))
    assert run_fit(again, jobs, record, attempt=2)["type"] == "done"
    admit_attempt(jobs.root, 1, 1)  # here the dead one may continue, for comparison
    driver.run_jobs()
    assert_equal_params(again.params(), driver.params())


def test_unsaved_parameters_are_saved_before_the_first_batch(
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


def test_a_fits_initial_save_replaces_no_existing_checkpoint(driver, jobs, make_network, toy_data):
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


def test_a_fit_without_an_optimizer_uses_the_modules(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    driver.ready(learning_rate=0.05)
    record = ModuleRecord(name="net", symbols={})
    last = run_fit(driver, jobs, record, optimizer=None)
    assert last["type"] == "done", last
    assert driver.describe()["optimizer"]["options"] == {"learning_rate": 0.05}
    assert driver.describe()["optimizer"]["num_update"] == 21


# -- stopping ----------------------------------------------------------------------------------


def stop_after(driver, batches: int, action: JobAction) -> dict:
    while driver.advance():
        if sum(event["type"] == "prepared" for event in driver.events):
            if batches == 0:
                driver.ask(JobControl(job_id=1, attempt=1, action=action))
            batches -= 1
    return driver.events[-1]


@pytest.mark.parametrize("batches", [0, 1, 5, 7, 8])
def test_a_paused_fit_resumes_with_the_same_bits(
    driver, fresh_driver, jobs, make_network, toy_data, batches
):
    jobs.dataset("toy", toy_data)
    symbol = make_network(dropout=0.4)
    changes = {"validation": {"dataset": "toy"}, "checkpoint": {"epochs": 0}}
    whole = fresh_driver()
    expected = run_fit(whole, jobs, whole.create(symbol), **changes)

    driver.ask(jobs.start(driver.create(symbol), fit_params(**changes)))
    assert stop_after(driver, batches, JobAction.PAUSE) == {
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


def test_a_cancelled_fit_stops_after_the_current_batch(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    driver.ask(jobs.start(record, fit_params()))
    assert stop_after(driver, 3, JobAction.CANCEL)["type"] == "cancelled"
    assert not driver.of_type("checkpoint")
    assert driver.describe()["job_id"] is None
    assert driver.describe()["has_unsaved"]
    driver.ask(calls.Predict(module="net"), data=toy_data["data"])
