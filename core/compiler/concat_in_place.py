"""Concatenation without copies: producers write straight into their part of the output.

If the inputs of a concatenation lie one after the other in its output, each input's memory becomes
a part of the output's memory, and nothing is left to copy. In a chain of concatenations, where each
reads the one before, all lie in the memory of the last.

Only plans without a backward pass do this: along channels, only single images lie so, and training
has batches.
"""

from __future__ import annotations

from .ir import Place, Program, Step, Value
from .memory import ALIGNMENT
from .primitives import ConcatInPlace

__all__ = ["concat_in_place"]


def concat_in_place(program: Program) -> bool:
    """Place inputs of concatenations inside the output; return whether any was placed.

    Runs after the choice of kernels, which tell the inputs' offsets, and before ``assign_inplace``.
    """
    if program.backward_steps:
        return False
    written = {value for step in program.steps for value in step.writes()}
    steps = program.forward_steps
    joined = False
    # The last of a chain comes first, so that the outputs of the others become parts of its output.
    for index in reversed(range(len(steps))):
        step = steps[index]
        if _may_join(program, step, written):
            _place(program, step)
            steps[index] = Step(ConcatInPlace(), step.node, step.inputs, step.outputs)
            joined = True
    program.replace_steps(steps, [])
    return joined


def _may_join(program: Program, step: Step, written: set[int]) -> bool:
    parts = None if step.kernel is None else step.kernel.parts
    # A value that is an input twice cannot lie in two places.
    if parts is None or len(set(step.inputs)) != len(step.inputs):
        return False
    (out,) = step.outputs
    if out is None or not _is_free(program.values[out], written, is_whole=True):
        return False
    return all(
        slot is not None
        and begin % ALIGNMENT == 0  # as for every planned value
        and _is_free(program.values[slot], written, is_whole=False)
        for slot, begin in zip(step.inputs, parts, strict=True)
    )


def _is_free(value: Value, written: set[int], *, is_whole: bool) -> bool:
    """Return whether a value can be placed elsewhere.

    The output of a concatenation (``is_whole``) may itself already be a part of a larger one.
    """
    is_placed = value.base is not None and not (is_whole and value.part is not None)
    return value.place is Place.ARENA and value.id in written and not is_placed


def _place(program: Program, step: Step) -> None:
    assert step.kernel is not None
    assert step.kernel.parts is not None
    for slot, begin in zip(step.inputs, step.kernel.parts, strict=True):
        assert slot is not None
        value = program.values[slot]
        value.base, value.part = step.outputs[0], begin
