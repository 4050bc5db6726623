"""Expansion of layers that another framework has fused: each stage becomes a step.

These steps are then fused, folded and laid out like all others. Only in plans without a backward
pass, because such layers have no gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ops import Operator
from .ir import Program, Slots, Step

__all__ = ["decompose"]


def decompose(program: Program) -> None:
    """Replace operators by the simpler ones that they amount to (``Operator.opened``)."""
    steps: list[Step] = []
    for step in program.steps:
        parts = step.op.opened()
        steps += _opened(program, step, parts) if parts else [step]
    program.replace_steps(steps, ())


def _opened(
    program: Program, step: Step, parts: Sequence[tuple[Operator, tuple[int, ...]]]
) -> list[Step]:
    (out,) = step.writes()
    made: list[Step] = []
    current: int | None = None
    for number, (op, indices) in enumerate(parts):
        is_last = number == len(parts) - 1
        inputs = tuple(step.inputs[index] for index in indices)
        target = out if is_last else _like(program, step, out)
        # Only a batch norm has hidden outputs, and it always follows a layer.
        hidden = [_vector(program, step, inputs) for _ in op.output_names()[1:]]
        read = inputs if current is None else (current, *inputs)
        made.append(Step(op, step.node, read, (target, *hidden)))
        current = target
    return made


def _like(program: Program, step: Step, out: int) -> int:
    value = program.values[out]
    return program.new_value(step.node, value.shape, value.dtype).id


def _vector(program: Program, step: Step, inputs: Slots) -> int:
    """Add a value for statistics of a batch norm, in the shape of gamma."""
    gamma = inputs[0]
    assert gamma is not None
    value = program.values[gamma]
    return program.new_value(step.node, value.shape, value.dtype).id
