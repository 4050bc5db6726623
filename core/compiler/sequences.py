"""Vectorization over time in a forward pass: values that are split, concatenated, or computed by
equal operators for each time step become one value with time along its first axis.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from ..capabilities.arrays import CONCATENATION, EXPAND_DIMS, SPLIT, STACK
from ..capabilities.kinds import is_of
from ..ops import Operator
from ..ops.joining import Stack
from ..ops.reshape import Reshape
from ..ops.transpose import Reverse, SwapAxis
from .edit import Edit
from .ir import Step

__all__ = ["Sequences"]


class Sequences:
    """Makes one sequence of the values of all time steps.

    Args:
        edit: of the program.
        kept: steps that must not be merged.
    """

    def __init__(self, edit: Edit, kept: Iterable[Step]) -> None:
        self._edit = edit
        self._kept = frozenset(kept)
        self._stacks: dict[tuple[int, ...], Step] = {}

    def sequence(self, parts: Sequence[int]) -> int:
        """Return a value of shape (steps, ...) that consists of these parts."""
        found = self._split(parts)
        return self._stacked(tuple(parts)) if found is None else found

    def flatten_stacks(self) -> None:
        """Flatten the sequences stacked so far whose parts nothing else reads."""
        known = 0
        # Until none is new: flattening one stack may stack the operands of its parts.
        while known < len(self._stacks):
            steps = list(self._stacks.values())
            known = len(steps)
            for step in steps:
                self.flatten(step)

    def flatten(self, join: Step) -> None:
        """Replace a stack of equal computations by one computation on stacked inputs."""
        parts, axis = self._parts(join) if self._edit.uses.has(join) else ([], None)
        if axis is None:
            return
        self._edit.begin(join.node, [join])
        # Taken out first, so that it does not count as a reader of the parts.
        removed = self._take_out(join)
        writers = self._alike(parts)
        operator = None if writers is None else self._on_sequences(writers)
        if writers is None or operator is None:
            for step in removed:
                self._edit.uses.add(step)
        else:
            self._show(self._computed(writers, operator), axis, join)

    def join(self, joined: int, parts: Sequence[int]) -> None:
        """Replace all steps that concatenate these parts by the sequence."""
        for step in self._joins(parts):
            found, axis = self._parts(step)
            assert axis is not None
            self._take_out(step)
            is_reversed = found != list(parts)
            source = self._edit.applied(Reverse(axis=(0,)), joined) if is_reversed else joined
            self._show(source, axis, step)

    # -- building a sequence --------------------------------------------------------------------

    def _split(self, parts: Sequence[int]) -> int | None:
        """Return the value that was split into these parts, if there is one."""
        split = self._edit.uses.writer.get(parts[0])
        op = None if split is None else split.op
        if split is None or op is None or not (is_of(op, SPLIT) and op.squeeze_axis):
            return None
        is_reversed = split.outputs == tuple(reversed(parts))
        source, axis = split.inputs[0], op.axis
        if source is None or axis not in (0, 1):
            return None
        if not is_reversed and split.outputs != tuple(parts):
            return None
        if axis == 1:
            source = self._edit.applied(SwapAxis(dim1=0, dim2=1), source)
        return self._edit.applied(Reverse(axis=(0,)), source) if is_reversed else source

    def _stacked(self, parts: tuple[int, ...]) -> int:
        """Return the stack of these parts; the same value for every request."""
        # The other direction of a bidirectional layer reads the same parts from the end.
        behind = self._stacks.get(parts[::-1])
        if behind is not None:
            return self._edit.applied(Reverse(axis=(0,)), behind.writes()[0])
        if parts not in self._stacks:
            stack = self._edit.made(Stack(num_args=len(parts), axis=0), parts)
            # Before it is added, because it would be among the concatenations to be replaced.
            self.join(stack.writes()[0], parts)
            self._edit.add(stack)
            self._stacks[parts] = stack
        return self._stacks[parts].writes()[0]

    def _computed(self, writers: Sequence[Step], operator: Operator) -> int:
        """Replace equal steps by an operator that works on whole sequences; return its output."""
        # Before their operands become sequences, which nothing but these steps may read.
        for step in writers:
            self._edit.uses.remove(step)
        sources = [
            operand[0] if _is_same(operand) else self.sequence(operand)
            for operand in zip(*(step.reads() for step in writers), strict=True)
        ]
        return self._edit.applied(operator, *sources)

    def _alike(self, parts: Sequence[int]) -> list[Step] | None:
        """Return the steps that write the parts, if they are equal and can be replaced."""
        writers = [step for part in parts if (step := self._edit.uses.writer.get(part)) is not None]
        if len(parts) < 2 or len(set(writers)) < len(parts) or not self._kept.isdisjoint(writers):
            return None
        op = writers[0].op
        # ``flatten`` has taken out the concatenation: a reader that is left needs the part itself.
        if any(step.op != op or self._edit.is_wanted(step.writes()) for step in writers):
            return None
        return writers

    def _on_sequences(self, writers: Sequence[Step]) -> Operator | None:
        """Return the operator that does on whole sequences what equal steps do."""
        operands = list(zip(*(step.reads() for step in writers), strict=True))
        if any(len({self._edit.shape(value) for value in operand}) > 1 for operand in operands):
            return None
        is_shared = [_is_same(operand) for operand in operands]
        for operand, is_same in zip(operands, is_shared, strict=True):
            if not is_same and len(set(operand)) < len(writers):
                return None  # some steps share it, others do not
        if all(is_shared):
            return None
        return writers[0].op.stacked(
            [self._edit.shape(value) for value in writers[0].reads()], is_shared
        )

    # -- replacing concatenations ---------------------------------------------------------------

    def _joins(self, parts: Sequence[int]) -> list[Step]:
        """Return the steps that concatenate these parts, in order or reversed."""
        readers = self._edit.uses.readers(parts[0])
        behind = [self._edit.uses.readers(one) for step in readers for one in step.writes()]
        found = []
        for step in dict.fromkeys((*readers, *itertools.chain.from_iterable(behind))):
            joined, axis = self._parts(step)
            if axis is not None and (joined == list(parts) or joined[::-1] == list(parts)):
                found.append(step)
        return found

    def _parts(self, join: Step) -> tuple[list[int], int | None]:
        """Return the parts that a step concatenates, and the axis of time in its result: 0, 1, or
        None if it is not a concatenation."""
        parts, rank = join.reads(), len(self._edit.shape(join.writes()[0]))
        if is_of(join.op, STACK):
            axis = join.op.axis % rank
        elif is_of(join.op, CONCATENATION):
            axis = join.op.dim % rank
            if rank > 2:
                parts = [self._unexpanded(part, axis) for part in parts]
        else:
            return [], None
        return (parts, axis) if axis < 2 and -1 not in parts else ([], None)

    def _unexpanded(self, value: int, axis: int) -> int:
        """Return the value before ``expand_dims`` at this axis; -1 if it is not an expanded one."""
        step = self._edit.uses.writer.get(value)
        if step is None or not is_of(step.op, EXPAND_DIMS):
            return -1
        is_there = step.op.axis % len(self._edit.shape(value)) == axis
        return step.reads()[0] if is_there else -1

    def _take_out(self, join: Step) -> list[Step]:
        """Remove a concatenation and the steps that only it reads; return these."""
        removed = [join]
        self._edit.uses.remove(join)
        for value in join.reads():
            step = self._edit.uses.writer.get(value)
            is_alone = step is not None and not self._edit.is_wanted(step.writes())
            if step is not None and is_alone and step.op.kind is EXPAND_DIMS:
                self._edit.uses.remove(step)
                removed.append(step)
        return removed

    def _show(self, sequence: int, axis: int, join: Step) -> None:
        """Add a step that writes the result of a removed concatenation from a sequence."""
        source = self._edit.applied(SwapAxis(dim1=0, dim2=1), sequence) if axis else sequence
        (target,) = join.writes()
        self._edit.add(
            Step(Reshape(shape=self._edit.shape(target)), join.node, (source,), (target,))
        )


def _is_same(values: Sequence[int]) -> bool:
    return len(set(values)) == 1
