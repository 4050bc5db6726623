"""What a monitor sees of a plan: arrays under the names MXNet gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from core.device import Context
from core.executor.ir import Place, Program, Step
from core.executor.lower import Lowering
from core.executor.plan import Observer
from core.executor.primitives import Primitive
from core.ndarray import NDArray

__all__ = ["MonitorCallback", "observer_of"]

MonitorCallback = Callable[[str, NDArray], Any]


def observer_of(callback: MonitorCallback, monitor_all: bool, context: Context) -> Observer:
    """Return the observer that shows a monitor each step's outputs, and its inputs if wanted."""

    def observe(step: Step, lowering: Lowering, is_before: bool) -> None:
        if isinstance(step.op, Primitive) or (is_before and not monitor_all):
            return
        names = _inputs(step, lowering.program) if is_before else _outputs(step, lowering.program)
        for name, value in names:
            callback(name, NDArray(lowering.array(value), context))

    return observe


def _outputs(step: Step, program: Program) -> Iterator[tuple[str, int]]:
    """Yield what a step has written: ``fc1_output``, ``fc1_backward_output0``."""
    if step.source is None:
        for value in step.writes():
            yield program.values[value].name, value
        return
    count = len(step.in_grads) - len(step.op.auxiliary_names())
    for index, gradient in enumerate(step.in_grads):
        if gradient is not None:
            number = index if count > 1 else ""
            yield f"{step.node}_backward_output{number}", gradient


def _inputs(step: Step, program: Program) -> Iterator[tuple[str, int]]:
    """Yield what a step reads; a variable under its own name first."""
    if step.source is None:
        names = [f"{step.node}_{name}" for name in step.op.input_names()]
        slots = step.inputs
    else:
        slots = tuple(step.reads())
        names = [f"{step.node}_backward_input{index}" for index in range(len(slots))]
    for name, read in zip(names, slots, strict=True):
        assert read is not None
        value = program.values[read]
        if value.place in (Place.ARGUMENT, Place.AUXILIARY):
            yield value.name, read
        yield name, read
