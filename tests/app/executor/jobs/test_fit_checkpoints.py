"""Jobs read and write files off the device's thread."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.domain.job import JobAction, JobKind
from app.domain.module import InitSpec
from app.executor.jobs import fit_checkpoints, fit_setup, training
from app.files.checkpoint_files import list_tags, read_manifest
from app.link import calls
from app.link.job_messages import JobControl
from core.checkpoint import load_params
from served.fits import fit_params

EACH_BATCH = {"checkpoint": {"batches": 1}}


class Gate:
    """A function that blocks until opened; counts how many are waiting."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.waiting = threading.Semaphore(0)
        self.passing = threading.Semaphore(0)
        self.calls = 0
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        self.waiting.release()
        assert self.passing.acquire(timeout=60)
        return self._function(*args, **kwargs)

    def open(self) -> None:
        """Let all through from now on."""
        self.passing.release(10_000)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """A disk on which writing checkpoints blocks."""
    gate = Gate(fit_checkpoints._write)
    monkeypatch.setattr(fit_checkpoints, "_write", gate)
    yield gate
    gate.open()


def tags(jobs: Any) -> list[str]:
    return [str(tag) for tag in list_tags(jobs.folder / "checkpoints")]


def saved(driver: Any) -> list[str]:
    return [f"{event['epoch']}.{event['batch']}" for event in driver.of_type("checkpoint")]


def start(driver: Any, jobs: Any, symbol: Any, data: Any, **changes: Any) -> None:
    jobs.dataset("toy", data)
    driver.ask(jobs.start(driver.create(symbol), fit_params(**changes)))


def advance_to_a_wait(driver: Any) -> None:
    while driver.host.has_work():
        driver.advance()


def test_a_fit_keeps_training_while_its_checkpoint_is_written(
    driver, jobs, make_network, toy_data, disk
):
    start(driver, jobs, make_network(), toy_data, checkpoint={"batches": 3})
    while not disk.calls:
        driver.advance()
    before = driver.params()["fc1_weight"].copy()
    advance_to_a_wait(driver)
    assert disk.calls == 1  # never two at once: the second waits for the first
    assert (driver.params()["fc1_weight"] != before).any()
    assert saved(driver) == []
    driver.ask(calls.Predict(module="net"), data=toy_data["data"])
    disk.open()
    assert driver.run_jobs()["type"] == "done"
    assert saved(driver)[0] == "0.3"
    assert tags(jobs)[0] == "0.3"


def test_a_checkpoint_is_reported_once_durable_and_holds_the_state_at_its_batch(
    driver, jobs, make_network, toy_data, disk
):
    start(driver, jobs, make_network(), toy_data, **EACH_BATCH)
    while not disk.calls:
        driver.advance()
    weight = driver.params()["fc1_weight"]
    advance_to_a_wait(driver)
    assert saved(driver) == tags(jobs) == []
    disk.passing.release()
    while not saved(driver):
        driver.advance()
    assert (driver.params()["fc1_weight"] != weight).any()
    assert saved(driver) == ["0.1"]
    assert "0.1" in tags(jobs)
    arguments, _ = load_params(str(jobs.folder / "checkpoints" / "0.1" / "net"), 0)
    assert (arguments["fc1_weight"].asnumpy() == weight).all()


def test_a_job_ends_only_when_its_last_checkpoint_is_durable(
    driver, jobs, make_network, toy_data, disk
):
    start(driver, jobs, make_network(), toy_data, epochs=1)
    while not disk.calls:
        driver.advance()
    advance_to_a_wait(driver)
    assert driver.of_type("done") == []
    assert driver.describe()["job_id"] == 1
    disk.open()
    assert driver.run_jobs()["type"] == "done"
    assert [event["type"] for event in driver.events[-2:]] == ["checkpoint", "done"]


def test_a_paused_job_waits_for_its_checkpoint(driver, jobs, make_network, toy_data, disk):
    start(driver, jobs, make_network(), toy_data, **EACH_BATCH)
    while not disk.calls:
        driver.advance()
    driver.ask(JobControl(job_id=1, attempt=1, action=JobAction.PAUSE))
    advance_to_a_wait(driver)
    assert driver.of_type("paused") == []
    disk.open()
    assert driver.run_jobs()["type"] == "paused"
    assert saved(driver)[-1] == tags(jobs)[-1]


def test_nothing_is_written_after_a_cancelled_job_has_ended(
    driver, jobs, make_network, toy_data, disk
):
    start(driver, jobs, make_network(), toy_data, checkpoint={"batches": 3})
    while not disk.calls:
        driver.advance()
    driver.ask(JobControl(job_id=1, attempt=1, action=JobAction.CANCEL))
    disk.open()
    assert driver.run_jobs()["type"] == "cancelled"
    assert saved(driver) == tags(jobs) == ["0.3"]
    assert not list((jobs.folder / "checkpoints").glob(".incoming-*"))


def test_a_cancelled_fit_whose_last_checkpoint_fails_is_cancelled(
    driver, jobs, make_network, toy_data, monkeypatch
):
    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    gate = Gate(full)
    monkeypatch.setattr(fit_checkpoints, "_write", gate)
    start(driver, jobs, make_network(), toy_data, checkpoint={"batches": 3})
    while not gate.calls:
        driver.advance()
    driver.ask(JobControl(job_id=1, attempt=1, action=JobAction.CANCEL))
    gate.open()
    assert driver.run_jobs()["type"] == "cancelled"
    assert "No space left" in driver.of_type("log")[-1]["message"]


@pytest.mark.parametrize("failing", ["fsync", "open"])
def test_a_full_disk_fails_the_fit_with_its_error_code(
    driver, jobs, make_network, toy_data, monkeypatch, failing
):
    def full(*args: Any, **kwargs: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    target = fit_checkpoints.Snapshot if failing == "open" else fit_checkpoints
    name = "write" if failing == "open" else "write_checkpoint"
    monkeypatch.setattr(target, name, full)
    start(driver, jobs, make_network(), toy_data, **EACH_BATCH)
    last = driver.run_jobs()
    assert (last["type"], last["code"]) == ("failed", "storage_full")
    # The module is restored to what it was: the next attempt must not build on this one's training.
    assert driver.refusal(calls.DescribeModule(module="net")).code == "not_resident"
    assert not last["is_unsaved"]


def test_unsaved_parameters_are_trained_only_once_they_are_durable(
    driver, jobs, make_network, toy_data, disk
):
    record = driver.create(make_network())
    driver.bind()
    driver.ask(calls.InitParams(module="net", spec=InitSpec(initializer="xavier")))
    before = driver.params()["fc1_weight"]
    jobs.dataset("toy", toy_data)
    driver.ask(jobs.start(record, fit_params()))
    while not disk.calls:
        driver.advance()
    advance_to_a_wait(driver)
    assert (driver.params()["fc1_weight"] == before).all()
    disk.open()
    assert driver.run_jobs()["type"] == "done"
    assert tags(jobs)[0] == "0"


def test_a_later_attempt_does_not_build_on_an_earlier_ones_training(
    driver, jobs, make_network, toy_data
):
    record = driver.create(make_network())
    jobs.dataset("toy", toy_data)
    driver.ask(jobs.start(record, fit_params()))
    while not driver.of_type("progress"):
        driver.advance()
    again = jobs.start(record, fit_params(), attempt=2)
    assert driver.refusal(again).code == "not_resident"
    assert driver.host.has_work() is False


def test_an_attempt_that_lost_its_job_leaves_nothing(driver, jobs, make_network, toy_data):
    start(driver, jobs, make_network(), toy_data)
    while not driver.of_type("progress"):
        driver.advance()
    count = len(driver.events)
    driver.ask(JobControl(job_id=1, attempt=1, action=JobAction.CANCEL, is_void=True))
    assert driver.host.has_work() is False
    assert driver.refusal(calls.DescribeModule(module="net")).code == "not_resident"
    assert len(driver.events) == count


def test_a_resumed_fit_reads_its_checkpoint_off_the_thread(
    driver, fresh_driver, jobs, make_network, toy_data, monkeypatch
):
    start(driver, jobs, make_network(), toy_data)
    assert driver.run_jobs()["type"] == "done"
    assert read_manifest(jobs.folder / "checkpoints" / "3").metrics["train"]

    gate = Gate(training._read)
    monkeypatch.setattr(training, "_read", gate)
    other = fresh_driver()
    resume = jobs.folder / "checkpoints" / "2"
    record = other.create(make_network())
    other.ask(jobs.start(record, fit_params(), resume=resume, attempt=2))
    while not gate.calls:
        other.advance()
    assert not other.host.has_work()
    assert other.describe()["job_id"] == 1
    gate.open()
    assert other.run_jobs()["type"] == "done"
    assert (other.params()["fc1_weight"] == driver.params()["fc1_weight"]).all()


@pytest.mark.parametrize("kind", [JobKind.FIT, JobKind.SCORE, JobKind.PREDICT])
def test_other_work_continues_while_a_dataset_loads(
    driver, jobs, make_network, toy_data, monkeypatch, kind
):
    gate = Gate(fit_setup.Examples)
    monkeypatch.setattr(fit_setup, "Examples", gate)
    jobs.dataset("toy", toy_data)
    driver.ready()
    record = driver.create(make_network(), name="other")
    params = fit_params() if kind is JobKind.FIT else {"dataset": "toy", "batch_size": 8}
    if kind is JobKind.PREDICT:
        params["output"] = "o"
    named = record if kind is JobKind.FIT else record.evolve(name="net")
    driver.ask(jobs.start(named, params, kind=kind))
    driver.advance()
    assert gate.waiting.acquire(timeout=60)
    assert not driver.host.has_work()
    driver.ask(calls.Predict(module="net"), data=toy_data["data"])
    gate.open()
    assert driver.run_jobs()["type"] == "done"
