"""A deleted module's memory is freed at once, without the garbage collector."""

from __future__ import annotations

import contextlib
import errno
import gc
import logging
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import core as mx
from app.domain.job import JobAction, JobKind
from app.domain.module import BindSpec, InitSpec, ModuleKind, OptimizerSpec
from app.errors.tree import HostError
from app.executor.jobs import fit_checkpoints, fit_setup
from app.link import calls
from app.link.job_messages import JobControl
from served.fits import fit_params
from served.perceptron import BATCH, FEATURES, data_shape, label_shape

HIDDEN = 1000
WEIGHT_BYTES = HIDDEN * HIDDEN * 4
DATA = {"data": np.ones((BATCH, FEATURES), np.float32)}
LABELED = {**DATA, "softmax_label": np.zeros(BATCH, np.float32)}


def network() -> mx.sym.Symbol:
    """Return a classifier with a large weight."""
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=HIDDEN, name="fc1")
    net = mx.sym.BatchNorm(mx.sym.Activation(net, act_type="relu"), name="norm")
    net = mx.sym.FullyConnected(net, num_hidden=HIDDEN, name="fc2")
    net = mx.sym.FullyConnected(net, num_hidden=3, name="fc3")
    return mx.sym.SoftmaxOutput(net, name="softmax")


@pytest.fixture(autouse=True)
def counted() -> Iterator[None]:
    """Count memory, and disable the garbage collector."""
    logging.disable()  # pytest keeps log records, tracebacks included
    gc.collect()
    gc.disable()
    tracemalloc.start()
    yield
    tracemalloc.stop()
    gc.enable()
    logging.disable(logging.NOTSET)


def refused(driver: Any, call: Any, **tensors: Any) -> None:
    """Make a call that must be refused, without keeping the error."""
    with contextlib.suppress(HostError):
        driver.ask(call, **tensors)
        raise AssertionError("it was not refused")


def make_ready(driver: Any) -> None:
    driver.bind()
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=3)))
    options = {"learning_rate": 0.1, "momentum": 0.9}
    driver.ask(calls.InitOptimizer(module="net", spec=OptimizerSpec(options=options)))


def predict(driver: Any, jobs: Any) -> None:
    make_ready(driver)
    driver.ask(calls.Predict(module="net"), **DATA)
    driver.ask(calls.Predict(module="net"), data=np.ones((300, FEATURES), np.float32))


def step(driver: Any, jobs: Any) -> None:
    make_ready(driver)
    driver.ask(calls.Forward(module="net", backward=True, monitor="*", is_marked=True), **LABELED)
    driver.ask(calls.Update(module="net"))
    driver.ask(calls.GetStatistics(module="net", pattern="*"))
    driver.ask(calls.Forward(module="net", is_train=False), **DATA)
    driver.ask(calls.GetOutputs(module="net"))


def bind_again(driver: Any, jobs: Any) -> None:
    predict(driver, jobs)
    driver.bind(batch=BATCH + 2)
    driver.ask(calls.Predict(module="net"), **DATA)
    shapes = {"data_shapes": (data_shape(9),), "label_shapes": (label_shape(9),)}
    driver.ask(calls.Reshape(module="net", **shapes))
    driver.ask(calls.Predict(module="net"), **DATA)


def save_and_load(driver: Any, jobs: Any) -> None:
    predict(driver, jobs)
    root = jobs.folder / "saved"
    call = calls.SaveCheckpoint(module="net", root=str(root), epoch=1, optimizer_states=True)
    driver.ask(call)
    driver.ask(calls.LoadCheckpoint(module="net", directory=str(root / "1"), optimizer_states=True))
    driver.ask(calls.GetOptimizerStates(module="net"))
    driver.ask(calls.SetParams(module="net"), **driver.params())


def make_mistakes(driver: Any, jobs: Any) -> None:
    predict(driver, jobs)
    wide = {"data": np.ones((BATCH, FEATURES + 1), np.float32)}
    refused(driver, calls.Predict(module="net"), **wide)
    refused(
        driver, calls.Forward(module="net", backward=True, is_marked=True), **{**LABELED, **wide}
    )
    shapes = {"data_shapes": (data_shape(3),), "label_shapes": (label_shape(4),)}
    refused(driver, calls.Bind(module="net", spec=BindSpec(**shapes)))
    refused(driver, calls.LoadCheckpoint(module="net", directory=str(jobs.folder / "none")))
    refused(driver, calls.SetParams(module="net"), fc2_weight=np.ones((2, 2)))


def fit(driver: Any, jobs: Any, **changes: Any) -> dict[str, Any]:
    params = {"validation": {"dataset": "toy"}, "checkpoint": {"batches": 2}, "epochs": 1}
    driver.ask(jobs.start(driver.record, fit_params(**{**params, **changes})))
    last: dict[str, Any] = driver.run_jobs()
    return last


def fit_and_score(driver: Any, jobs: Any) -> None:
    last = fit(driver, jobs, monitor={"interval": 2, "pattern": "*"}, callbacks={"speedometer": {}})
    assert last["type"] == "done", last
    for number, kind in ((2, JobKind.SCORE), (3, JobKind.PREDICT)):
        output = {"output": "o"} if kind is JobKind.PREDICT else {}
        params = {"dataset": "toy", "batch_size": 8, **output}
        driver.ask(jobs.start(driver.record, params, kind=kind, job_id=number))
        assert driver.run_jobs()["type"] == "done"


def cancelled_fit(driver: Any, jobs: Any) -> None:
    driver.ask(jobs.start(driver.record, fit_params()))
    while not driver.of_type("prepared"):
        driver.advance()
    driver.ask(JobControl(job_id=1, attempt=1, action=JobAction.CANCEL))
    assert driver.run_jobs()["type"] == "cancelled"


def full(*args: Any, **kwargs: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def fit_on_a_full_disk(driver: Any, jobs: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit_checkpoints, "write_checkpoint", full)
        assert fit(driver, jobs)["code"] == "storage_full"


def fit_without_its_dataset(driver: Any, jobs: Any) -> None:
    make_ready(driver)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit_setup, "Examples", full)
        assert fit(driver, jobs)["code"] == "storage_full"


def diverging_fit(driver: Any, jobs: Any) -> None:
    options = {"learning_rate": 1e30, "momentum": 0.9}
    assert fit(driver, jobs, optimizer={"name": "sgd", "options": options})["code"] == "invalid"


USES = [
    predict,
    step,
    bind_again,
    save_and_load,
    make_mistakes,
    fit_and_score,
    cancelled_fit,
    fit_without_its_dataset,
    diverging_fit,
]
KINDS: dict[str, dict[str, Any]] = {
    "module": {},
    "mutable": {"kind": ModuleKind.MUTABLE},
    "detection": {"kind": ModuleKind.DETECTION},
    "two devices": {"contexts": ("cpu(0)", "cpu(1)")},
}


def check_freed(use: Callable[[], None], driver: Any) -> None:
    """Use and delete a module twice: caches filled the first time do not count."""
    use()
    driver.ask(calls.DeleteModule(module="net"))
    driver.events.clear()
    before, _ = tracemalloc.get_traced_memory()
    use()
    present, _ = tracemalloc.get_traced_memory()
    assert present - before > WEIGHT_BYTES  # every large allocation was counted
    driver.ask(calls.DeleteModule(module="net"))
    driver.events.clear()
    after, _ = tracemalloc.get_traced_memory()
    assert after - before < WEIGHT_BYTES / 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("act", USES, ids=lambda act: act.__name__)
def test_deleting_a_module_frees_its_memory_at_once(driver, jobs, toy_data, kind, act):
    if act is bind_again and kind == "two devices":
        pytest.skip("binding again does the same on one device and on two")
    jobs.dataset("toy", toy_data)

    def use() -> None:
        driver.record = driver.create(network(), **KINDS[kind])
        act(driver, jobs)

    check_freed(use, driver)


def bound_to_predict(driver: Any, jobs: Any) -> None:
    driver.bind(for_training=False)
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=3)))


def bound_again(driver: Any, jobs: Any) -> None:
    bound_to_predict(driver, jobs)
    driver.bind(batch=BATCH + 2, for_training=False)


def set_and_read(driver: Any, jobs: Any) -> None:
    bound_to_predict(driver, jobs)
    driver.ask(calls.SetParams(module="net"), **driver.params())


def saved_and_loaded(driver: Any, jobs: Any) -> None:
    bound_to_predict(driver, jobs)
    root = jobs.folder / "saved"
    driver.ask(calls.SaveCheckpoint(module="net", root=str(root), epoch=1))
    driver.ask(calls.LoadCheckpoint(module="net", directory=str(root / "1")))


def stepped(driver: Any, jobs: Any) -> None:
    make_ready(driver)
    driver.ask(calls.Forward(module="net", backward=True, is_marked=True), **LABELED)
    driver.ask(calls.Update(module="net"))
    driver.params()


@pytest.mark.parametrize(
    ("act", "most"),
    [
        # Twice the parameters: once as they are, and once in the layout that kernels read.
        *((act, 2) for act in (bound_to_predict, bound_again, set_and_read, saved_and_loaded)),
        (stepped, 3),  # with gradients and momentum
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_module_has_no_second_copy_of_its_parameters(driver, jobs, act, most):
    def use() -> None:
        driver.record = driver.create(network())
        act(driver, jobs)

    use()
    driver.ask(calls.DeleteModule(module="net"))
    driver.events.clear()
    before, _ = tracemalloc.get_traced_memory()
    use()
    after, _ = tracemalloc.get_traced_memory()
    assert most - 0.5 < (after - before) / WEIGHT_BYTES < most + 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_deleting_a_module_evicted_by_its_fit_frees_its_memory_at_once(
    driver, jobs, toy_data, kind
):
    jobs.dataset("toy", toy_data)

    def use() -> None:
        driver.record = driver.create(network(), **KINDS[kind])
        fit_on_a_full_disk(driver, jobs)
        driver.events.clear()

    use()
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    use()
    after, peak = tracemalloc.get_traced_memory()
    assert peak - before > WEIGHT_BYTES  # every large allocation was counted
    assert after - before < WEIGHT_BYTES / 4


def test_deleting_a_bucketing_module_frees_its_memory_at_once(driver):
    lengths, batch = (4, 8), 16_000
    data = {"data": np.ones((4, 8, FEATURES), np.float32), "lengths": np.full(4, 3.0)}

    def use() -> None:
        driver.create_buckets(lengths, 8)
        driver.bind_buckets(8, (4,), batch=batch)
        driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=3)))
        for length in lengths:
            driver.ask(calls.Predict(module="net"), **{**data, "data": data["data"][:, :length]})

    check_freed(use, driver)


def test_a_prediction_in_progress_keeps_what_it_needs_of_a_deleted_module(driver):
    driver.create(network())
    make_ready(driver)
    method, params = calls.to_call(calls.Predict(module="net"))
    many = np.ones((300, FEATURES), np.float32)
    computation = driver.host.handle(method, params, {"data": many})
    outputs = {name: np.empty(*spec) for name, spec in computation.specs.items()}
    steps = computation.run(outputs)
    next(steps)
    expected = outputs["softmax_output"][:1].copy()
    driver.ask(calls.DeleteModule(module="net"))
    for _ in steps:
        pass
    np.testing.assert_allclose(outputs["softmax_output"], np.repeat(expected, 300, 0), rtol=1e-5)
