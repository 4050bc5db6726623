"""Steps made simpler, or dropped, where they do less than their operator can."""

from __future__ import annotations

from collections.abc import Set

from .ir import Place, Program, Step

__all__ = ["fold_views", "simplify"]


def simplify(program: Program) -> None:
    """Give each step the simplest operator that does the same on tensors of these shapes.

    Stands before the gradient: what an elementwise sum hands on needs no step.
    """
    values = program.values
    for step in program.steps:
        step.op = step.op.given([values[slot].shape for slot in step.inputs if slot is not None])


def fold_views(program: Program) -> bool:
    """Drop forward steps that only give a value another shape, or none at all.

    Their output becomes a view of their input: Reshape and Flatten always, Dropout and
    BlockGrad where they change nothing in the program's mode.
    """
    read = {value for step in program.steps for value in step.reads()}
    forward = program.forward_steps
    kept = [step for step in forward if not _folded(program, step, read)]
    program.replace_steps(kept, program.backward_steps)
    return len(kept) < len(forward)


def _folded(program: Program, step: Step, read: Set[int]) -> bool:
    if not (step.op.is_view() or step.op.is_identity(program.is_train)):
        return False
    if any(hidden in read for hidden in step.outputs[1:]):
        return False
    source, target = step.inputs[0], step.outputs[0]
    assert source is not None
    assert target is not None
    value, memory = program.values[target], program.memory(source)
    if memory.id in program.strided or memory.place is Place.AUXILIARY:
        return False
    if value.place is Place.OUTPUT:
        # An output is a buffer of its own: it must not change when an argument is set anew.
        if memory.place is not Place.ARENA:
            return False
        memory.place, memory.index = Place.OUTPUT, value.index
    value.base, value.is_view = source, True
    return True
