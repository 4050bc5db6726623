"""Monitoring of plans: passes arrays to a callback under the names that MXNet gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..backends import backend_of
from ..compiler.ir import Place, Program, Step
from ..compiler.primitives import Primitive
from ..compiler.sparse_step import SparseStep
from ..device import Context
from ..ndarray import NDArray
from ..ops import Operator
from ..ops.csr import Csr
from ..ops.rows import Rows
from ..types import Array
from .arrays import zeros
from .lower import Lowering
from .plan import Observer

__all__ = ["MonitorCallback", "OperatorHook", "hook_of", "observer_of"]

MonitorCallback = Callable[[str, NDArray], Any]
"""Called with an array and its name."""

OperatorHook = Callable[[str, str, NDArray], Any]
"""Called with an array, its name and that of the operator."""


def hook_of(callback: MonitorCallback | None) -> OperatorHook | None:
    """Return a hook that calls a callback without the operator's name."""
    return None if callback is None else lambda name, _, array: callback(name, array)


def observer_of(hook: OperatorHook, monitor_all: bool, context: Context) -> Observer:
    """Return an observer that passes each step's outputs to a hook, and its inputs if wanted."""

    def observe(step: Step, lowering: Lowering, is_before: bool) -> None:
        # MXNet's graphs have no such steps.
        if isinstance(step.op, Primitive) or (is_before and not monitor_all):
            return
        if is_before:
            arrays = _read(_inputs(step, lowering.program), lowering, context)
        elif step.source is None:
            arrays = _read(_outputs(step, lowering.program), lowering, context)
        else:
            arrays = _gradients(step, step.source, lowering, context)
        op = step.op.operator if isinstance(step.op, SparseStep) else step.op
        for name, array in arrays:
            hook(name, op.names[0], NDArray(array, context))

    return observe


def _read(
    named: Iterable[tuple[str, int]], lowering: Lowering, context: Context
) -> Iterator[tuple[str, Array]]:
    for name, value in named:
        yield name, _shown(lowering.plain(value), context)


def _shown(array: Any, context: Context) -> Array:
    """Return an array; a sparse one is converted to a dense array."""
    return array.dense(backend_of(context).xp) if isinstance(array, (Csr, Rows)) else array


def _outputs(step: Step, program: Program) -> Iterator[tuple[str, int]]:
    """Yield a forward step's outputs (``fc1_output``), except those that MXNet does not have."""
    for value in step.outputs[: step.op.stored_outputs()]:
        if value is not None:
            yield program.values[value].name, value


def _gradients(
    step: Step, forward: Step, lowering: Lowering, context: Context
) -> Iterator[tuple[str, Array]]:
    """Yield a backward step's outputs (``fc1_backward_output0``).

    MXNet also shows gradients that nothing needs. There they are uninitialised, here zeros.
    """
    count = len(step.in_grads) - len(step.op.auxiliary_names())
    for index, gradient in enumerate(step.in_grads[:count]):
        number = index if count > 1 else ""
        name = f"{step.node}_backward_output{number}"
        given = forward.inputs[index]
        if gradient is not None:
            yield name, _shown(lowering.plain(gradient), context)
        elif given is not None:
            spec = lowering.program.values[given].spec
            yield name, zeros(spec.shape, spec.dtype, context).dense()


def _input_names(op: Operator) -> tuple[str, ...]:
    """Return the names under which MXNet's monitor shows an operator's inputs.

    There, the input of most operators with a single input has no name.
    """
    names = op.input_names()
    return ("input0",) if names == ("data",) and not op.monitors_data else names


def _inputs(step: Step, program: Program) -> Iterator[tuple[str, int]]:
    """Yield a step's inputs; a variable first under its own name."""
    if step.source is None:
        names = [f"{step.node}_{name}" for name in _input_names(step.op)]
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
