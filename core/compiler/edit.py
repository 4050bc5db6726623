"""Editing the steps of a forward pass: uses of values, insertion, and a final topological sort."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from ..ops import Operator
from ..types import Shape
from .ir import Program, Slots, Step

__all__ = ["Edit", "Uses"]


class Uses:
    """The writer and the readers of each value, kept up to date while steps come and go."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self.writer: dict[int, Step] = {}
        self._readers: dict[int, dict[Step, None]] = {}
        for step in steps:
            self.add(step)

    def add(self, step: Step) -> None:
        """Register a step's reads and writes."""
        for value in step.writes():
            self.writer[value] = step
        for value in step.reads():
            self._readers.setdefault(value, {})[step] = None

    def remove(self, step: Step) -> None:
        """Remove a step's reads and writes."""
        for value in step.writes():
            del self.writer[value]
        for value in step.reads():
            self._readers[value].pop(step, None)

    def readers(self, value: int) -> list[Step]:
        """Return the steps that read a value, once each."""
        return list(self._readers.get(value, ()))

    def has(self, step: Step) -> bool:
        """Return whether the step is still part of the program."""
        return self.writer.get(step.writes()[0]) is step


class Edit:
    """Adds and removes steps of a forward pass.

    Args:
        program: a traced forward pass; ``finish`` changes it.
        uses: who reads and writes its values.

    Attributes:
        node: name of the graph's node whose steps are being added.
    """

    def __init__(self, program: Program, uses: Uses) -> None:
        self.program = program
        self.uses = uses
        self._positions = {step: position for position, step in enumerate(program.steps)}
        self._outputs = frozenset(program.outputs)
        self.node, self._place = "", 0

    def begin(self, node: str, steps: Iterable[Step]) -> None:
        """Insert the following new steps where the first of ``steps`` is, on behalf of a node."""
        self.node, self._place = node, min(self._positions[step] for step in steps)

    def finish(self) -> None:
        """Write the steps back to the program, in order and without dead ones."""
        # In reverse, because a step may be dead only once its readers are removed.
        for step in reversed(self.program.steps):
            if self.uses.has(step) and not self.is_wanted(step.writes()):
                self.uses.remove(step)
        self.program.replace_steps(self._in_order(), ())

    def shape(self, value: int) -> Shape:
        """Return a value's shape."""
        return self.program.values[value].shape

    def applied(self, op: Operator, *inputs: int) -> int:
        """Add a step and return its first output."""
        step = self.made(op, inputs)
        self.add(step)
        return step.writes()[0]

    def made(self, op: Operator, inputs: Slots) -> Step:
        """Create a step with new values for its outputs."""
        values = [self.program.values[slot] for slot in inputs if slot is not None]
        unknown: list[Shape | None] = [None] * len(op.output_names())
        _, shapes = op.infer_shape([value.shape for value in values], unknown)
        outputs = []
        for name, shape in zip(op.output_names(), shapes, strict=True):
            assert shape is not None
            # Passes add only operators whose outputs have the dtype of their first input.
            value = self.program.new_value(f"{self.node}_{name}", shape, values[0].dtype)
            outputs.append(value.id)
        return Step(op, self.node, inputs, tuple(outputs))

    def add(self, step: Step) -> None:
        """Add a step."""
        self.uses.add(step)
        self._positions[step] = self._place

    def is_wanted(self, values: Iterable[int]) -> bool:
        """Return whether at least one of these values is read."""
        return any(value in self._outputs or self.uses.readers(value) for value in values)

    def _in_order(self) -> list[Step]:
        """Return the steps in topological order, otherwise in their previous order (Kahn's
        algorithm)."""
        steps = [step for step in self._positions if self.uses.has(step)]
        ranks = {step: (self._positions[step], rank) for rank, step in enumerate(steps)}
        missing = {step: len(self._written_by(step)) for step in steps}
        ready = [ranks[step] for step in steps if not missing[step]]
        heapq.heapify(ready)
        ordered: list[Step] = []
        while ready:
            step = steps[heapq.heappop(ready)[1]]
            ordered.append(step)
            readers = {one: None for value in step.writes() for one in self.uses.readers(value)}
            for reader in readers:
                missing[reader] -= 1
                if not missing[reader]:
                    heapq.heappush(ready, ranks[reader])
        return ordered

    def _written_by(self, step: Step) -> set[Step]:
        """Return the steps that write what a step reads."""
        writers = (self.uses.writer.get(value) for value in step.reads())
        return {writer for writer in writers if writer is not None}
