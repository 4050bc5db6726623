"""Early stopping and the best epoch, also across deaths."""

from __future__ import annotations

import pytest

from app.domain.checkpoint import BestPolicy, CheckpointManifest, best_tags, is_better
from app.errors.tree import HostError
from app.files.checkpoint_files import list_tags, read_manifest
from served.fits import assert_equal_params, run_fit, without_seconds

STUCK = {"name": "sgd", "options": {"learning_rate": 0.0}}
STOPPING = {"metric": "loss", "mode": "min", "patience": 2}


@pytest.mark.parametrize(
    ("value", "best", "mode", "delta", "expected"),
    [
        (1.0, None, "min", 0.5, True),
        (None, None, "min", 0.0, False),
        (None, 1.0, "max", 0.0, False),
        (0.9, 1.0, "min", 0.0, True),
        (0.9, 1.0, "min", 0.2, False),
        (1.0, 1.0, "max", 0.0, False),
        (1.1, 1.0, "max", 0.0, True),
    ],
)
def test_which_value_is_better(value, best, mode, delta, expected) -> None:
    assert is_better(value, best, mode, delta) is expected


def manifest(epoch: int, loss: float | None, job_id: int = 1, batch: int = 0) -> CheckpointManifest:
    return CheckpointManifest(
        module="m",
        epoch=epoch,
        batch=batch,
        prefix="m",
        files={},
        created_at=0.0,
        job_id=job_id,
        metrics={"train": {"loss": loss}},
        keep_best=BestPolicy(part="train", metric="loss", mode="min", count=2),
    )


def test_the_best_epoch_of_each_job_is_found_in_the_manifests() -> None:
    found = best_tags(
        [
            manifest(1, 0.5),
            manifest(2, 0.2),
            manifest(3, 0.2),
            manifest(4, 0.1, batch=7),
            manifest(5, None),
            manifest(6, 9.0, job_id=2),
        ]
    )
    assert {str(tag) for tag in found} == {"2", "3", "6"}


def test_it_stops_without_improvement_and_saves_there(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    record = driver.create(make_network())
    changes = {"early_stopping": STOPPING, "optimizer": STUCK, "checkpoint": {"epochs": 0}}
    last = run_fit(driver, jobs, record, epochs=9, **changes)
    assert last["type"] == "done", last
    assert (last["result"]["epochs"], last["result"]["stopped_early"]) == (3, True)
    assert last["result"]["checkpoint"] == "3"
    assert [str(tag) for tag in list_tags(jobs.root)] == ["3"]


def test_it_continues_while_it_improves(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    last = run_fit(driver, jobs, driver.create(make_network()), early_stopping=STOPPING)
    assert (last["result"]["epochs"], last["result"]["stopped_early"]) == (3, False)


@pytest.mark.parametrize("tag", ["1", "1.3", "2", "3", "4"])
def test_it_stops_at_the_same_epoch_and_bits_from_any_checkpoint(
    driver, fresh_driver, jobs, make_network, toy_data, tag
):
    jobs.dataset("toy", toy_data)
    symbol = make_network(dropout=0.4)
    changes = {
        "epochs": 9,
        "validation": {"dataset": "toy"},
        "early_stopping": {"metric": "loss", "mode": "max", "patience": 3},
        "checkpoint": {
            "epochs": 1,
            "batches": 3,
            "keep_best": {"metric": "accuracy", "mode": "max"},
        },
    }
    expected = run_fit(driver, jobs, driver.create(symbol), **changes)
    assert (expected["result"]["epochs"], expected["result"]["stopped_early"]) == (4, True)
    other = fresh_driver()
    last = run_fit(other, jobs, other.create(symbol), **changes, resume=tag, attempt=2)
    assert without_seconds(last["result"]) == without_seconds(expected["result"])
    assert_equal_params(other.params(), driver.params())


def test_the_best_epoch_is_saved_and_reported(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    best = {"metric": "loss", "mode": "max", "count": 1}
    checkpoint = {"epochs": 0, "keep_best": best}
    last = run_fit(driver, jobs, driver.create(make_network()), checkpoint=checkpoint)
    told = last["result"]["best"]
    assert (told["checkpoint"], told["metric"]) == ("1", "train.loss"), "the loss only decreases"
    manifests = [read_manifest(jobs.root / str(tag)) for tag in list_tags(jobs.root)]
    assert [str(one.tag) for one in manifests] == ["1", "3"]
    assert manifests[0].metrics["train"]["loss"] == told["value"]
    assert {str(tag) for tag in best_tags(manifests)} == {"1"}


@pytest.mark.parametrize("field", ["early_stopping", "checkpoint.keep_best"])
def test_an_uncomputed_metric_is_refused(driver, jobs, make_network, toy_data, field):
    jobs.dataset("toy", toy_data)
    choice = {"metric": "acuracy", "mode": "max"}
    changes = (
        {"early_stopping": choice}
        if field == "early_stopping"
        else {"checkpoint": {"keep_best": choice}}
    )
    last = run_fit(driver, jobs, driver.create(make_network()), **changes)
    assert (last["type"], last["field"]) == ("failed", f"{field}.metric")
    assert "accuracy, loss" in last["message"]


def test_a_validation_metric_needs_validation_data(driver, jobs, make_network, toy_data):
    jobs.dataset("toy", toy_data)
    choice = {"metric": "loss", "mode": "min", "part": "validation"}
    with pytest.raises(HostError, match="a fit with a validation dataset"):
        run_fit(driver, jobs, driver.create(make_network()), early_stopping=choice)
