"""Fits of modules with buckets, on sequences of many lengths."""

from __future__ import annotations

import pytest

from app.files.checkpoint_files import read_manifest
from served.fits import assert_equal_params, fit_params

RAGGED = {
    "data": {"array": "frames", "lengths": "lengths"},
    "lengths": {"array": "lengths"},
    "softmax_label": {"array": "labels"},
}


def bucket_params(**changes) -> dict:
    return fit_params(dataset="sequences", inputs=RAGGED, epochs=15, batch_size=4, **changes)


def test_sequences_are_learned_in_buckets(driver, jobs, toy_sequences):
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


def test_bucketed_fits_resume_with_the_same_bits(driver, fresh_driver, jobs, toy_sequences):
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


def test_sequences_too_long_for_every_bucket_are_skipped_and_counted(driver, jobs, toy_sequences):
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
def test_invalid_bucketed_fits_are_refused(driver, jobs, toy_sequences, changes, field):
    jobs.dataset("sequences", toy_sequences)
    record = driver.create_buckets((4, 9), default=9)
    driver.ask(jobs.start(record, bucket_params() | changes))
    last = driver.run_jobs()
    assert (last["type"], last["field"]) == ("failed", field)
