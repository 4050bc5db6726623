"""The host: its table of calls, and the life cycle of modules."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

import numpy as np
import pytest

import core as mx
from app.domain.module import SINGLE, BindSpec, InitSpec, ModuleRecord, OptimizerSpec
from app.errors.tree import HostError, Invalid
from app.executor import host
from app.executor.host import ModuleHost
from app.executor.modules.hosted_module import HostedModule
from app.link import calls
from app.link.protocols import Priority
from served.perceptron import BATCH, FEATURES, data_shape, label_shape

# -- the table of calls ------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(calls.CALL_NAMES.values()))
def test_every_call_is_known_by_name_and_has_a_priority(driver, name):
    assert driver.host.priority(name) in Priority
    # No call takes this parameter; a missing handler would raise a KeyError.
    with pytest.raises(HostError) as refusal:
        driver.host.handle(name, {"extra": 1}, {})
    assert refusal.value.code == "invalid"


def test_predictions_come_after_control_and_before_steps(driver):
    assert driver.host.priority("predict") is Priority.PREDICT
    assert driver.host.priority("describe_module") is Priority.CONTROL
    assert driver.host.priority("forward") is Priority.STEP


def test_an_unknown_method_is_refused(driver):
    with pytest.raises(HostError) as refusal:
        driver.host.priority("shutdown")
    assert refusal.value.code == "not_found"


def test_malformed_parameters_are_refused_with_the_field(driver):
    with pytest.raises(HostError) as refusal:
        driver.host.handle("describe_module", {"module": 3}, {})
    assert (refusal.value.code, refusal.value.field_name) == ("invalid", "module")
    with pytest.raises(HostError) as refusal:
        driver.host.handle("describe_module", {"module": "net", "extra": 1}, {})
    assert refusal.value.field_name == "extra"


def test_a_missing_device_is_refused():
    with pytest.raises(Invalid, match=r"gpu\(63\)"):
        ModuleHost("gpu(63)", print, print)


def test_executor_info_describes_the_device(driver):
    driver.ready()
    info, _ = driver.ask(calls.ExecutorInfo())
    assert info["device"] == "cpu(0)"
    assert info["rss_bytes"] > 2**20
    assert info["available_bytes"] > 2**20
    assert [module["name"] for module in info["modules"]] == ["net"]
    assert info["jobs"] == []


# -- life cycle --------------------------------------------------------------------------------


def test_a_module_goes_through_its_stages(driver, make_network):
    driver.create(make_network())
    assert driver.describe()["stage"] == "created"
    driver.bind()
    assert driver.describe()["stage"] == "bound"
    driver.ask(calls.InitParams(module="net", spec=InitSpec(seed=1)))
    assert driver.describe()["stage"] == "initialized"
    driver.ask(calls.InitOptimizer(module="net", spec=OptimizerSpec()))
    description = driver.describe()
    assert description["stage"] == "ready"
    assert description["outputs"] == [
        {"name": "softmax_output", "shape": [BATCH, 3], "dtype": "float32", "batch_axis": 0}
    ]
    roles = {row["name"]: (row["role"], row["shape"]) for row in description["arguments"]}
    assert roles["data"] == ("data", [BATCH, FEATURES])
    assert roles["fc1_weight"] == ("parameter", [5, FEATURES])
    assert roles["softmax_label"] == ("label", [BATCH])
    assert description["memory"]["parameters"] > 0


@pytest.mark.parametrize(
    ("call", "stage"),
    [
        (calls.Predict(module="net"), "created"),
        (calls.Forward(module="net"), "bound"),
        (calls.GetParams(module="net"), "bound"),
        (calls.Update(module="net"), "initialized"),
        (calls.GetOptimizerStates(module="net"), "initialized"),
        (calls.InitOptimizer(module="net", spec=OptimizerSpec()), "bound"),
        (calls.InitParams(module="net", spec=InitSpec()), "created"),
        (calls.SaveCheckpoint(module="net", root="/nowhere", epoch=1), "bound"),
    ],
)
def test_a_call_before_its_stage_names_the_missing_call(driver, make_network, call, stage):
    driver.create(make_network())
    if stage != "created":
        driver.bind()
    if stage == "initialized":
        driver.ask(calls.InitParams(module="net", spec=InitSpec()))
    refusal = driver.refusal(call)
    assert refusal.code == "wrong_stage"
    assert f"the module is {stage}; first call POST /v1/modules/net/" in refusal.message
    assert driver.describe()["stage"] == stage


def test_names_are_unique_and_free_again_after_deletion(driver, make_network):
    record = driver.create(make_network())
    assert driver.refusal(calls.CreateModule(record=record)).code == "already_exists"
    driver.ask(calls.DeleteModule(module="net"))
    assert driver.refusal(calls.DescribeModule(module="net")).code == "not_resident"
    assert driver.ask(calls.ExecutorInfo())[0]["modules"] == []
    driver.create(make_network())


def test_the_generation_is_the_records(driver, make_network):
    driver.create(make_network(), generation=7)
    assert driver.describe()["generation"] == 7


# -- invalid symbols and names -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "damaged"),
        ('{"nodes": [], "arg_nodes": [], "heads": []}', None),
        (
            '{"nodes":[{"op":"Nonsense","name":"n","inputs":[]}],"arg_nodes":[],"heads":[[0,0,0]]}',
            "unknown_operator",
        ),
    ],
)
def test_an_invalid_symbol_is_refused_and_nothing_is_kept(driver, text, code):
    record = ModuleRecord(name="net", symbols={SINGLE: text})
    refusal = driver.refusal(calls.CreateModule(record=record))
    assert refusal.field_name == "symbol"
    if code is not None:
        assert refusal.code == code
    assert driver.ask(calls.ExecutorInfo())[0]["modules"] == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"data_names": ("dat",)}, "data_names"),
        ({"fixed_param_names": ("fc9_weight",)}, "fixed_param_names"),
        ({"state_names": ("h",)}, "state_names"),
        ({"label_names": ("lable",)}, "label_names"),
        ({"label_names": ()}, "label_names"),
        ({"contexts": ("tpu(0)",)}, "contexts"),
        ({"contexts": ("gpu(63)",)}, "contexts"),
        ({"default_bucket_key": "10"}, "default_bucket_key"),
        ({"default_bucket_key": "{"}, "default_bucket_key"),
    ],
)
def test_names_the_symbol_lacks_are_refused(driver, make_network, changes, field):
    record = ModuleRecord(name="net", symbols={SINGLE: make_network().tojson()}, **changes)
    refusal = driver.refusal(calls.CreateModule(record=record))
    assert refusal.field_name == field
    assert refusal.code == "invalid"


def test_a_network_without_a_loss_needs_no_labels(driver):
    net = mx.sym.softmax(mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc"))
    driver.create(net)
    assert driver.describe()["label_names"] == []


class Gated:
    """Work that blocks in its thread until released."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work
        self.may_go_on = threading.Event()

    def __call__(self, *arguments: Any) -> Any:
        assert self.may_go_on.wait(60)
        return self._work(*arguments)


def begin(driver: Any, call: Any) -> tuple[Any, Future[Any]]:
    """Start a call; return its steps, and what the first of them leaves to another thread."""
    method, params = calls.to_call(call)
    computation = driver.host.handle(method, params, {})
    assert computation.is_exclusive
    steps = computation.run({})
    pending = next(steps)
    assert isinstance(pending, Future)
    assert not pending.done()
    return steps, pending


def finish(steps: Any, gate: Gated, pending: Future[Any]) -> None:
    gate.may_go_on.set()
    wait([pending])
    with pytest.raises(StopIteration):
        next(steps)


def test_other_calls_are_answered_while_a_module_is_bound_and_initialized(
    driver, fresh_driver, make_network, toy_data, monkeypatch
):
    expected = fresh_driver()
    expected.create(make_network())
    expected.bind()
    expected.ask(calls.InitParams(module="net", spec=InitSpec(seed=7)))

    driver.ready()
    batch = {name: array[:BATCH] for name, array in toy_data.items()}
    driver.create(make_network(), name="new")
    spec = BindSpec(data_shapes=(data_shape(BATCH),), label_shapes=(label_shape(BATCH),))
    gate = Gated(HostedModule._bound)
    monkeypatch.setattr(HostedModule, "_bound", lambda *arguments: gate(*arguments))
    steps, pending = begin(driver, calls.Bind(module="new", spec=spec))
    driver.step(batch)
    assert driver.describe("new")["stage"] == "created"
    finish(steps, gate, pending)
    assert driver.describe("new")["stage"] == "bound"

    gate = Gated(host.init_params)
    monkeypatch.setattr(host, "init_params", gate)
    steps, pending = begin(driver, calls.InitParams(module="new", spec=InitSpec(seed=7)))
    monkeypatch.undo()
    driver.ask(calls.InitParams(module="net", spec=InitSpec()))  # draws in the meantime
    finish(steps, gate, pending)
    for name, value in driver.params("new").items():
        np.testing.assert_array_equal(value, expected.params()[name])
    # The stream continues where the initialization left it.
    for one, name in ((driver, "new"), (expected, "net")):
        one.ask(calls.InitParams(module=name, spec=InitSpec()))
    for name, value in driver.params("new").items():
        np.testing.assert_array_equal(value, expected.params()[name])


def test_a_module_is_copied_for_saving_and_written_off_the_thread(driver, toy_data, tmp_path):
    driver.ready()
    saved = driver.params()["fc1_weight"]
    call = calls.SaveCheckpoint(module="net", root=str(tmp_path), epoch=1, optimizer_states=True)
    method, params = calls.to_call(call)
    computation = driver.host.handle(method, params, {})
    steps = computation.run({})
    written = next(steps)
    driver.step(toy_data)  # while it is being written
    wait([written])
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value["manifest"]["epoch"] == 1
    assert driver.describe()["has_unsaved"]
    assert (driver.params()["fc1_weight"] != saved).any()
    driver.ask(calls.LoadCheckpoint(module="net", directory=str(tmp_path / "1")))
    assert (driver.params()["fc1_weight"] == saved).all()
