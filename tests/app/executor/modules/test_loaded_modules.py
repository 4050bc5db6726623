"""A device's memory: what is evicted, what stays, and what it costs the caller."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from app.domain.job import JobKind
from app.domain.module import BindSpec, InitSpec, OptimizerSpec
from app.errors.tree import HostError
from app.executor.jobs import fit_setup, scoring
from app.executor.modules import bind_checks
from app.executor.predict.predictor import Predictor
from app.link import calls
from app.link.protocols import Arrays
from served.fits import fit_params
from served.perceptron import BATCH, data_shape, label_shape

NAMES = ("a", "b", "c")


@pytest.fixture
def many(driver: Any, make_network: Any) -> Any:
    """A host with modules ``a``, ``b`` and ``c``, which have all predicted."""
    for name in NAMES:
        make(driver, make_network, name)
    return driver


def make(driver: Any, make_network: Any, name: str) -> None:
    driver.create(make_network(), name=name)
    spec = BindSpec(data_shapes=(data_shape(),), label_shapes=(label_shape(),))
    driver.ask(calls.Bind(module=name, spec=spec))
    driver.ask(calls.InitParams(module=name, spec=InitSpec(seed=1)))
    predict(driver, name)


def predict(driver: Any, name: str, rows: int = BATCH) -> Arrays:
    data = np.ones((rows, data_shape().shape[1]), "f")
    _, tensors = driver.ask(calls.Predict(module=name), data=data)
    return dict(tensors)


def names(driver: Any) -> list[str]:
    return list(driver.ask(calls.ResidentModules())[0]["names"])


def memory(driver: Any) -> dict[str, dict[str, int]]:
    rows = driver.ask(calls.ExecutorInfo())[0]["modules"]
    return {row["name"]: row["memory"] for row in rows}


def limit(driver: Any, budget_bytes: int) -> None:
    driver.host._loaded_modules.budget_bytes = budget_bytes


def test_memory_is_reported_by_module_and_adds_up(many: Any) -> None:
    found = memory(many)
    assert set(found) == set(NAMES)
    for parts in found.values():
        assert all(parts[of] > 0 for of in ("parameters", "training", "predict"))
        assert parts["optimizer"] == 0
    budget = many.ask(calls.ExecutorInfo())[0]["memory_budget"]
    assert budget["used"] == sum(sum(parts.values()) for parts in found.values())
    assert budget["used"] < budget["bytes"]
    many.ask(calls.InitOptimizer(module="a", spec=OptimizerSpec(options={"momentum": 0.9})))
    step(many, "a")
    parameters = memory(many)["a"]["parameters"]
    assert 0 < memory(many)["a"]["optimizer"] <= parameters
    many.ask(calls.DeleteModule(module="a"))
    used = many.ask(calls.ExecutorInfo())[0]["memory_budget"]["used"]
    assert used == sum(sum(parts.values()) for parts in memory(many).values())


def step(driver: Any, name: str) -> None:
    data = {
        "data": np.ones((BATCH, data_shape().shape[1]), "f"),
        "softmax_label": np.zeros(BATCH, "f"),
    }
    driver.ask(calls.Forward(module=name, backward=True), **data)
    driver.ask(calls.Update(module=name))


def test_plans_are_evicted_first_and_then_the_modules_idle_longest(many: Any) -> None:
    one = sum(memory(many)["b"].values())
    predict(many, "a")  # b has now been idle longest
    limit(many, 3 * one - 1)
    predict(many, "a", rows=1)  # another plan
    assert names(many) == ["b", "c", "a"]
    assert memory(many)["b"]["predict"] == 0
    limit(many, one * 3 // 2)
    predict(many, "a", rows=2)
    assert "b" not in names(many)
    assert "a" in names(many)
    with pytest.raises(HostError) as refused:
        predict(many, "b")
    assert refused.value.code == "not_resident"


def test_unsaved_modules_are_not_evicted(many: Any, jobs: Any, toy_data: Any) -> None:
    jobs.dataset("toy", toy_data)
    many.ask(calls.InitOptimizer(module="a", spec=OptimizerSpec()))
    step(many, "a")
    many.host._loaded_modules.use("b").job_id = 7
    limit(many, 1)
    predict(many, "b", rows=1)
    predict(many, "a", rows=1)
    assert names(many) == ["b", "a"], "only c, with neither unsaved changes nor a job, is evicted"


def failing(times: int, then: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs out of memory this many times."""
    left = [times]

    def call(*args: Any, **options: Any) -> Any:
        if left[0] > 0:
            left[0] -= 1
            raise MemoryError("Unable to allocate 8 GiB")
        return then(*args, **options)

    return call


@pytest.mark.parametrize("times", [1, 2])
def test_a_prediction_without_memory_fails_alone_after_a_second_try(
    many: Any, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    expected = predict(many, "a")["softmax_output"].copy()
    monkeypatch.setattr(Predictor, "_bind", failing(times, Predictor._bind))
    if times == 2:
        with pytest.raises(HostError, match="Unable to allocate 8 GiB") as refused:
            predict(many, "a", rows=1)
        assert refused.value.code == "out_of_memory"
    np.testing.assert_array_equal(predict(many, "a", rows=1)["softmax_output"], expected[:1])
    assert names(many) == ["a"], "the others were evicted to make room"


def test_a_step_without_memory_is_not_repeated(many: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    many.ask(calls.InitOptimizer(module="a", spec=OptimizerSpec()))
    engine = many.host._loaded_modules.use("a").engine
    monkeypatch.setattr(engine, "forward", failing(1, engine.forward))
    with pytest.raises(HostError) as refused:
        step(many, "a")
    assert refused.value.code == "out_of_memory"
    assert names(many) == ["a"]
    step(many, "a")


def test_binding_evicts_others_to_make_room(
    many: Any, make_network: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        bind_checks, "available_bytes", lambda context: 0 if len(names(many)) > 1 else 1 << 40
    )
    monkeypatch.setattr(bind_checks, "total_bytes", lambda context: 1 << 40)
    make(many, make_network, "d")
    assert names(many) == ["d"]


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("kind", [JobKind.FIT, JobKind.SCORE])
def test_a_job_without_memory_for_its_data_fails_alone_after_a_second_try(
    many: Any, jobs: Any, toy_data: Any, monkeypatch: pytest.MonkeyPatch, kind: JobKind, times: int
) -> None:
    jobs.dataset("toy", toy_data)
    monkeypatch.setattr(fit_setup, "Examples", failing(times, fit_setup.Examples))
    record = many.host._loaded_modules.use("a").record
    params = fit_params() if kind is JobKind.FIT else {"dataset": "toy", "batch_size": BATCH}
    many.ask(jobs.start(record, params, kind=kind))
    last = many.run_jobs()
    if times == 1:
        assert last["type"] == "done"
    else:
        assert (last["type"], last["code"]) == ("failed", "out_of_memory")
        assert "smaller" in last["message"]
    assert names(many) == ["a"]
    predict(many, "a")


def test_a_job_without_memory_has_none_of_its_own_when_others_make_room(
    many: Any, jobs: Any, toy_data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[weakref.ref[Any]] = []
    left: list[Any] = []

    def run_out(*arguments: Any, **options: Any) -> Any:
        array = np.zeros(3)
        held.append(weakref.ref(array))
        raise MemoryError("Unable to allocate 8 GiB")
        yield  # as a step of the job

    jobs.dataset("toy", toy_data)
    monkeypatch.setattr(scoring, "load_examples", run_out)
    monkeypatch.setattr(many.host._jobs, "_make_room", lambda name: left.append(held[-1]()))
    record = many.host._loaded_modules.use("a").record
    many.ask(jobs.start(record, {"dataset": "toy", "batch_size": BATCH}, kind=JobKind.SCORE))
    assert many.run_jobs()["code"] == "out_of_memory"
    assert left == [None, None]


def test_a_restored_module_stays_until_the_call_it_was_restored_for(many: Any) -> None:
    record = many.host._loaded_modules.use("a").record
    many.ask(calls.DeleteModule(module="a"))
    many.ask(calls.RestoreModule(record=record.with_init(InitSpec(seed=3))))
    limit(many, 1)
    predict(many, "b", rows=1)
    assert names(many) == ["a", "b"], "a stays although both exceed the budget"
    predict(many, "a", rows=1)
    assert names(many) == ["a"]


def test_a_running_jobs_data_counts(many: Any, jobs: Any, toy_data: Any) -> None:
    jobs.dataset("toy", toy_data)
    record = many.host._loaded_modules.use("a").record
    before = memory(many)["a"]
    many.ask(jobs.start(record, {"dataset": "toy", "batch_size": BATCH}, kind=JobKind.SCORE))
    seen = set()
    while many.host._jobs.summarize():
        if not many.host.has_work():
            time.sleep(0.001)
            continue
        many.host.advance()
        many.host._loaded_modules.measure("a")
        seen.add(memory(many)["a"]["job_data"])
    assert max(seen) >= toy_data["data"].nbytes
    assert memory(many)["a"]["job_data"] == 0
    parts = {"parameters", "optimizer", "training", "predict", "job_data", "versions"}
    assert set(before) == parts
