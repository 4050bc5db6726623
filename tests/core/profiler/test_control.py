"""Starting and stopping the profiler, and what it reports for modules, operators and updates."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path

import numpy as np
import pytest

import core as mx
from core.errors import MXNetError, UsageError
from core.kernels.chain import Chain
from core.profiler.recorder import profiler

OUT_OF_MEMORY = 1
"""oneDNN's status."""


def classifier() -> mx.mod.Module:
    data = mx.sym.Convolution(mx.sym.Variable("data"), kernel=(3, 3), num_filter=8, name="conv")
    data = mx.sym.Activation(data, act_type="relu", name="relu")
    data = mx.sym.FullyConnected(mx.sym.Flatten(data), num_hidden=3, name="fc")
    module = mx.mod.Module(mx.sym.SoftmaxOutput(data, name="softmax"), context=mx.cpu())
    module.bind([("data", (2, 8, 6, 6))], [("softmax_label", (2,))])
    module.init_params()
    module.init_optimizer()
    return module


def train(module: mx.mod.Module, steps: int) -> None:
    batch = mx.io.DataBatch([mx.nd.array(np.ones((2, 8, 6, 6)))], [mx.nd.array([1, 1])])
    for _ in range(steps):
        module.forward_backward(batch)
        module.update()


def statistics() -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    found: dict[str, dict[str, dict[str, dict[str, float]]]] = json.loads(
        mx.profiler.dumps(format="json")
    )
    return found


def test_operators_are_counted_under_mxnet_names(trace: Path) -> None:
    module = classifier()
    mx.profiler.set_state("run")
    train(module, 3)
    mx.profiler.set_state("stop")
    train(module, 2)
    times = statistics()["Time"]
    operators = times["operator"]
    for name in ("Convolution", "_backward_Convolution", "FullyConnected", "SoftmaxOutput"):
        assert operators[name]["Count"] == 3
    assert times["api"]["Executor.forward"]["Count"] == 3
    assert times["api"]["SGD.update"]["Count"] == 3
    kernels = times["kernel"]
    assert sum(one["Count"] for one in kernels.values()) == sum(
        one["Count"] for one in operators.values()
    )


@pytest.mark.parametrize("symbolic", [True, False])
def test_a_step_that_fails_under_the_profiler_is_named(
    trace: Path, symbolic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = mx.sym.relu(mx.sym.Variable("x"), name="r").simple_bind(mx.cpu(), x=(2, 2))
    executor.forward()
    plan, failing = executor._last, Chain(lambda: OUT_OF_MEMORY)
    spoiled = dataclasses.replace(plan._forward, calls=[failing.call], chains=[failing])
    monkeypatch.setattr(plan, "_forward", spoiled)
    mx.profiler.set_config(filename=str(trace), profile_symbolic=symbolic)
    mx.profiler.set_state("run")
    with pytest.raises(MemoryError) as caught:
        executor.forward()
    assert "'r'" in caught.value.__notes__[0]


def test_the_steps_of_a_pass_add_up_to_at_most_the_pass(trace: Path) -> None:
    module = classifier()
    train(module, 2)
    mx.profiler.set_state("run")
    train(module, 5)
    mx.profiler.set_state("stop")
    times = statistics()["Time"]
    steps = [*times["operator"].values(), *times.get("layout reorder", {}).values()]
    passes = times["api"]["Executor.forward"]["Total"] + times["api"]["Executor.backward"]["Total"]
    assert 0 < sum(one["Total"] for one in steps) <= passes
    for one in steps:
        assert one["Min"] <= one["Avg"] <= one["Max"] <= one["Total"] + 1e-9
        assert one["Avg"] == pytest.approx(one["Total"] / one["Count"])


def test_a_backward_pass_is_counted_as_one_whatever_its_first_step_is(trace: Path) -> None:
    parts = mx.sym.SliceChannel(mx.sym.Variable("x"), num_outputs=2)
    executor = parts[0].simple_bind(mx.cpu(), x=(2, 4))
    mx.profiler.set_state("run")
    executor.forward(is_train=True)
    executor.backward([mx.nd.ones((2, 2))])  # begins with zeros for the other part
    mx.profiler.set_state("stop")
    times = statistics()["Time"]["api"]
    assert times["Executor.forward"]["Count"] == times["Executor.backward"]["Count"] == 1


def test_the_trace_lists_each_step_with_its_node_and_kernel(trace: Path) -> None:
    module = classifier()
    mx.profiler.set_state("run")
    train(module, 1)
    mx.profiler.dump()
    events = json.loads(trace.read_text())["traceEvents"]
    steps = {
        event["args"]["node"]: event
        for event in events
        if event["ph"] == "X" and event["name"] == "Convolution"
    }
    assert set(steps) == {"conv"}
    assert steps["conv"]["cat"] == "operator"
    assert steps["conv"]["args"]["kernel"]
    assert steps["conv"]["dur"] > 0
    assert any(event["ph"] == "C" and event["cat"] == "Device Storage" for event in events)


def test_switches_turn_off_what_they_name(trace: Path) -> None:
    module = classifier()
    mx.profiler.set_config(
        filename=str(trace), aggregate_stats=True, profile_symbolic=False, profile_memory=False
    )
    mx.profiler.set_state("run")
    train(module, 1)
    mx.nd.exp(mx.nd.array([1, 1]))
    found = statistics()
    assert set(found["Time"]["operator"]) == {"exp"}
    assert found["Memory"] == {}
    mx.profiler.dump()
    mx.profiler.set_config(
        filename=str(trace),
        aggregate_stats=True,
        profile_imperative=False,
        profile_api=False,
    )
    mx.profiler.set_state("run")
    train(module, 1)
    found = statistics()
    assert "exp" not in found["Time"]["operator"]
    assert "api" not in found["Time"]
    assert "Convolution" in found["Time"]["operator"]


def test_profile_all_overrides_the_other_switches(trace: Path) -> None:
    mx.profiler.set_config(
        filename=str(trace), aggregate_stats=True, profile_all=True, profile_imperative=False
    )
    mx.profiler.set_state("run")
    mx.nd.exp(mx.nd.array([1, 1]))
    assert "exp" in statistics()["Time"]["operator"]


def test_nothing_is_recorded_during_a_pause(trace: Path) -> None:
    mx.profiler.set_state("run")
    mx.profiler.pause()
    mx.nd.exp(mx.nd.array([1, 1]))
    assert statistics()["Time"] == {}
    mx.profiler.resume()
    mx.nd.exp(mx.nd.array([1, 1]))
    assert statistics()["Time"]["operator"]["exp"]["Count"] == 1


def test_starting_ends_a_pause(trace: Path) -> None:
    mx.profiler.pause()
    mx.profiler.set_state("run")
    assert profiler.recorder is not None
    mx.profiler.pause()
    assert profiler.recorder is None
    mx.profiler.resume()
    assert profiler.recorder is not None


def test_a_deleted_trace_file_is_written_again(trace: Path) -> None:
    mx.profiler.set_state("run")
    for _ in range(2):
        mx.nd.ones((2,))
        mx.profiler.dump(False)
        assert json.loads(trace.read_text())["traceEvents"]
        trace.unlink()


def test_totals_can_be_sorted_and_reset(trace: Path) -> None:
    domain = mx.profiler.Domain("work")
    mx.profiler.set_state("run")
    for name, count in (("often", 3), ("seldom", 1)):
        for _ in range(count):
            task = domain.new_task(name)
            task.start()
            task.stop()
    table = mx.profiler.dumps(sort_by="count")
    assert table.index("often") < table.index("seldom")
    table = mx.profiler.dumps(sort_by="count", ascending=True, reset=True)
    assert table.index("seldom") < table.index("often")
    assert "often" not in mx.profiler.dumps()


def test_without_aggregate_stats_dumps_is_empty(trace: Path) -> None:
    mx.profiler.set_config(filename=str(trace))
    mx.profiler.set_state("run")
    mx.nd.exp(mx.nd.array([1, 1]))
    assert mx.profiler.dumps() == ""


def test_the_trace_can_be_written_while_recording(trace: Path) -> None:
    mx.profiler.set_state("run")
    mx.nd.exp(mx.nd.array([1, 1]))
    mx.profiler.dump(finished=False)
    first = json.loads(trace.read_text())["traceEvents"]
    mx.nd.log(mx.nd.array([1, 1]))
    mx.profiler.dump()
    both = json.loads(trace.read_text())["traceEvents"]
    assert both[: len(first)] == first
    assert [event["name"] for event in both if event["ph"] == "X"] == ["exp", "log"]


def test_continuous_dump_writes_by_itself(trace: Path) -> None:
    module = classifier()
    mx.profiler.set_config(filename=str(trace), continuous_dump=True, dump_period=0.001)
    mx.profiler.set_state("run")
    time.sleep(0.002)
    train(module, 1)
    assert json.loads(trace.read_text())["traceEvents"]


def test_dump_before_a_run_is_refused(trace: Path) -> None:
    mx.profiler.set_state("run")
    mx.profiler.dump()
    with pytest.raises(MXNetError, match="Profiler hasn't been run"):
        mx.profiler.dump()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"foo": 1}, "Cannot find argument 'foo'"),
        ({"file_name": "x"}, "did you mean 'filename'"),
        ({"profile_all": "x"}, "profile_all expect boolean"),
        ({"dump_period": 0}, "dump_period is 0"),
        ({"dump_period": "soon"}, "dump_period is 'soon'"),
        ({"profile_process": "server"}, "expected 'worker'"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(MXNetError, match=message):
        mx.profiler.set_config(**options)


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match="state is 'on'"):
        mx.profiler.set_state("on")
    with pytest.raises(UsageError, match="format"):
        mx.profiler.dumps(format="xml")
    with pytest.raises(UsageError, match="sort_by"):
        mx.profiler.dumps(sort_by="name")


def test_old_names_warn_and_work(trace: Path) -> None:
    with pytest.warns(UserWarning, match="set_config"):
        mx.profiler.profiler_set_config("all", str(trace))
    with pytest.warns(UserWarning, match="set_state"):
        mx.profiler.profiler_set_state("run")
    mx.nd.exp(mx.nd.array([1, 1]))
    with pytest.warns(UserWarning, match="dump"):
        mx.profiler.dump_profile()
    assert json.loads(trace.read_text())["traceEvents"][-1]["name"] == "exp"


def test_a_new_run_uses_new_settings(trace: Path, tmp_path: Path) -> None:
    mx.profiler.set_config(filename=str(trace), aggregate_stats=False)
    mx.profiler.set_state("run")
    mx.nd.sqrt(mx.nd.array([1]))
    mx.profiler.set_state("stop")
    assert mx.profiler.dumps() == ""
    other = tmp_path / "other.json"
    mx.profiler.set_config(filename=str(other), aggregate_stats=True)
    mx.profiler.set_state("run")
    mx.nd.sin(mx.nd.array([1]))
    mx.profiler.set_state("stop")
    assert set(statistics()["Time"]["operator"]) == {"sin"}
    mx.profiler.dump(False)
    assert "sqrt" in other.read_text()
    assert not trace.exists()


class _Shift(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):  # type: ignore[no-untyped-def]
        self.assign(out_data[0], req[0], in_data[0] + mx.nd.ones((2,)))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):  # type: ignore[no-untyped-def]
        self.assign(in_grad[0], req[0], out_grad[0] * 2)


def test_calls_inside_a_custom_operator_are_attributed_to_it(trace: Path) -> None:
    @mx.operator.register("profiled_shift")
    class _Properties(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):  # type: ignore[no-untyped-def]
            return _Shift()

    x = mx.nd.ones((2,))
    x.attach_grad()
    mx.profiler.set_state("run")
    with mx.autograd.record():
        y = mx.nd.Custom(x, op_type="profiled_shift")
    y.backward()
    mx.nd.sin(x)
    mx.profiler.set_state("stop")
    times = statistics()["Time"]
    # The names are MXNet's.
    assert {name: one["Count"] for name, one in times["Custom Operator"].items()} == {
        "profiled_shift::pure_python": 1,
        "profiled_shift::_ones": 1,
        "profiled_shift::broadcast_add": 1,
        "_backward_profiled_shift::pure_python": 1,
        "_backward_profiled_shift::_mul_scalar": 1,
    }
    assert {"Custom", "sin"} <= set(times["operator"])
