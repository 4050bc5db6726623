"""Labels of a plan's steps in a profile: operator, node and kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter_ns
from typing import Any, NamedTuple

from ..compiler.ir import Step
from ..compiler.primitives import Reorder
from ..profiler.recorder import Recorder
from ..profiler.statistics import KERNEL
from .lower import Call

__all__ = ["OPERATOR", "Label", "label_of", "recorded"]

OPERATOR, REORDER = "operator", "layout reorder"


class Label(NamedTuple):
    """The name of a step in a profile."""

    category: str
    name: str
    detail: Mapping[str, str]


def label_of(step: Step) -> Label:
    """Return a step's label; names are MXNet's, ``_backward_FullyConnected``."""
    kernel = "reference" if step.kernel is None else step.kernel.name
    if isinstance(step.op, Reorder):
        return Label(REORDER, step.node, {"node": step.node})
    name = step.op.names[0].removeprefix("_plan_")
    if step.is_backward:
        name = f"_backward_{name}"
    return Label(OPERATOR, name, {"node": step.node, KERNEL: kernel})


def recorded(call: Call, label: Label, recorder: Recorder, wait: Callable[[], None]) -> Any:
    """Run a step, record how long it takes, and return what it returns.

    Args:
        call: the step.
        label: its label.
        recorder: where to record.
        wait: waits for the device, because the call may only have queued the work.
    """
    start = perf_counter_ns()
    status = call()
    wait()
    recorder.add_span(label.category, label.name, start, perf_counter_ns(), label.detail)
    return status
