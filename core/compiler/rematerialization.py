"""Rematerialization: less memory for training, at the price of some steps running twice.

The output of such a step is dropped in the forward pass and recomputed before the backward pass
first reads it (Chen et al., "Training Deep Nets with Sublinear Memory Cost", arXiv:1604.06174).
MXNet calls this mirroring.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Set

from .ir import Place, Program, Slots, Step
from .trace import Graph

__all__ = ["NO_REMATERIALIZATION", "Rematerialization", "forced_steps", "rematerialize"]

_TRUE = ("1", "true", "True")


@dataclasses.dataclass(frozen=True)
class Rematerialization:
    """Which steps are recomputed, besides those of nodes that ask for it.

    Attributes:
        is_on: whether cheap steps are (``MXNET_BACKWARD_DO_MIRROR``), unless one of their inputs
            would have to be kept for that purpose alone.
        interval: every ``interval``-th of them is kept nevertheless (``MXNET_MIRROR_STEP``).
    """

    is_on: bool = False
    interval: int = 100


NO_REMATERIALIZATION = Rematerialization()
"""Only nodes that ask for it are recomputed."""


def forced_steps(graph: Graph) -> frozenset[int]:
    """Return the positions of the forward steps whose nodes say ``force_mirroring``."""
    operators = [node for node in graph.nodes if node.op is not None]
    return frozenset(
        position
        for position, node in enumerate(operators)
        if node.attrs.get("__force_mirroring__") in _TRUE
    )


def rematerialize(
    program: Program, policy: Rematerialization, forced: Set[Step] = frozenset()
) -> bool:
    """Let the backward pass recompute the results of cheap steps; return whether there are any.

    Steps that draw random numbers, write outputs or update auxiliary states always run once,
    because running them again would change the results.

    Args:
        program: with its backward pass; changed in place.
        policy: which other steps to recompute.
        forced: forward steps to recompute in any case.
    """
    chosen = _choose(program, policy, forced)
    if chosen:
        _Recomputation(program, chosen).run()
    return bool(chosen)


def _choose(program: Program, policy: Rematerialization, forced: Set[Step]) -> set[Step]:
    chosen: set[Step] = set()
    # A step kept at an interval ends a chain of recomputed ones, of which the backward pass needs
    # all values at once: a long chain would take the memory that it saves.
    count = 0
    # Values available in the backward pass: bound arrays, values it reads anyway, recomputed ones.
    read = {value for step in program.backward_steps for value in step.reads()}
    present = {value.id for value in program.values if value.place is not Place.ARENA} | read
    for step in program.forward_steps:
        if not _is_repeatable(program, step):
            continue
        if step not in forced:
            if not policy.is_on or step.op.is_costly or not present.issuperset(step.reads()):
                continue
            count += 1
            if count % policy.interval == 0:
                continue
        chosen.add(step)
        present.update(step.writes())
    return chosen


def _is_repeatable(program: Program, step: Step) -> bool:
    hidden = all(program.values[value].place is Place.ARENA for value in step.writes())
    # An operator that updates in backward only leaves its states as they are forwards.
    leaves_states = not step.updates or step.op.updates_backwards
    return hidden and leaves_states and not step.op.uses_random


class _Recomputation:
    def __init__(self, program: Program, chosen: Set[Step]) -> None:
        self._program = program
        self._makers = {value: step for step in chosen for value in step.writes()}
        self._again: dict[Step, Step] = {}
        self._values: dict[int, int] = {}
        self._steps: list[Step] = []

    def run(self) -> None:
        program = self._program
        for step in program.backward_steps:
            step.inputs = self._recomputed(step.inputs)
            if step.source is not None:
                step.outputs = self._recomputed(step.outputs)
                step.source = self._again.get(step.source, step.source)
            self._steps.append(step)
        program.replace_steps(program.forward_steps, self._steps)
        program.recomputed = frozenset(self._values.values())

    def _recomputed(self, slots: Slots) -> Slots:
        return tuple(None if slot is None else self._value(slot) for slot in slots)

    def _value(self, slot: int) -> int:
        maker = self._makers.get(slot)
        if maker is None:
            return slot
        if slot not in self._values:
            self._repeat(maker)
        return self._values[slot]

    def _repeat(self, step: Step) -> None:
        """Append a copy of a step, after recomputing its inputs where necessary."""
        program = self._program
        inputs = self._recomputed(step.inputs)
        outputs: list[int | None] = []
        is_view = step.op.is_identity(program.is_train)
        for index, slot in enumerate(step.outputs):
            if slot is None:
                outputs.append(None)
                continue
            like, name = program.values[slot], f"{program.values[slot].name}_again"
            if is_view and index == 0 and inputs[0] is not None:
                again = program.new_view(inputs[0], like, name)
            else:
                again = program.new_value(name, like.shape, like.dtype)
            self._values[slot] = again.id
            outputs.append(again.id)
        if not is_view:
            # Without ``updates``: a step chosen for this leaves its states as they are forwards.
            self._again[step] = Step(step.op, step.node, inputs, tuple(outputs))
            self._steps.append(self._again[step])
