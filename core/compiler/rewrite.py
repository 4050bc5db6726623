"""Simplification of steps: a cheaper equivalent operator, or a view instead of a copy."""

from __future__ import annotations

from collections.abc import Set

from .ir import Place, Program, Step

__all__ = ["fold_views", "simplify"]


def simplify(program: Program) -> None:
    """Replace each operator by the simplest equivalent one for its shapes.

    Runs before the backward pass is appended, so that the gradients are those of the simpler
    operators: an elementwise sum, for example, passes its gradient on without a step.
    """
    values = program.values
    for step in program.steps:
        step.op = step.op.given([values[slot].shape for slot in step.inputs if slot is not None])


def fold_views(program: Program) -> bool:
    """Drop forward steps that only change the shape of a value, or nothing at all.

    Their output becomes a view of their input: Reshape and Flatten always, Dropout and
    BlockGrad where they are the identity in the program's mode.
    """
    read = {value for step in program.steps for value in step.reads()}
    forward = program.forward_steps
    kept = [step for step in forward if not _folded(program, step, read)]
    program.replace_steps(kept, program.backward_steps)
    return len(kept) < len(forward)


def _folded(program: Program, step: Step, read: Set[int]) -> bool:
    if not (step.op.is_view() or step.op.is_identity(program.is_train)):
        return False
    # Without the step, nothing would write its hidden outputs, such as the mask of a Dropout.
    if any(hidden in read for hidden in step.outputs[1:]):
        return False
    source, target = step.inputs[0], step.outputs[0]
    assert source is not None
    assert target is not None
    value, memory = program.values[target], program.memory(source)
    # To reshape a strided array may take a copy, and a view of an auxiliary state would change when
    # an operator updates it.
    if memory.id in program.strided or memory.place is Place.AUXILIARY:
        return False
    if value.place is Place.OUTPUT:
        # An output must not share memory with an argument, or it would change along with it.
        if memory.place is not Place.ARENA:
            return False
        memory.place, memory.index = Place.OUTPUT, value.index
    value.base, value.is_view = source, True
    return True
