"""Rolling up: the cells of an unrolled recurrent layer become one step.

A graph that was unrolled for sixty steps of time has thousands of nodes. Where cells that share
their parameters hand their state on from one to the next, and no input depends on a state, they are
a layer that ``RecurrentLayer`` runs at once: the inputs of all cells in one product, and so the
gradients of the weights. What splits a sequence for the cells, and what joins their outputs, goes
with them.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Sequence, Set

import numpy as np

from core.executor.cells import Cell, Uses, find_cells
from core.executor.ir import Program, Slots, Step
from core.executor.primitives import Zeros
from core.executor.recurrent import RecurrentLayer
from core.ops import Operator, make_operator
from core.ops.joining import Concat, Stack
from core.ops.reshape import Reshape
from core.ops.slicing import SliceChannel
from core.ops.transpose import Reverse, SwapAxis
from core.types import Shape

__all__ = ["roll"]

_DTYPES = (np.dtype("float32"), np.dtype("float64"))
"""Others round after each operator, which a layer as a whole does not."""

Chain = list[Cell]


def roll(program: Program, kept: Set[Step] = frozenset()) -> None:
    """Roll up what can be rolled up.

    Args:
        program: a traced forward pass; changed in place.
        kept: steps that stay what they are.
    """
    uses = Uses(program.steps)
    cells = [cell for cell in find_cells(program, uses) if cell.steps.isdisjoint(kept)]
    chains = _chains(program, uses, cells)
    if not chains:
        return
    roller = _Roller(program, uses)
    # The last layer first: then what reads its inputs is there when the layer below is joined.
    for chain in sorted(chains, key=lambda chain: -chain[-1].output):
        roller.roll(chain)
    roller.finish()


# -- finding layers ---------------------------------------------------------------------------


def _chains(program: Program, uses: Uses, cells: Iterable[Cell]) -> list[Chain]:
    """Return cells that follow one another, each in one chain at most; the longest come first."""
    layers: dict[tuple[object, ...], Chain] = {}
    for cell in cells:
        if program.values[cell.output].dtype in _DTYPES:
            layers.setdefault(cell.kind, []).append(cell)
    shown = frozenset(program.outputs)
    found = [chain for layer in layers.values() for chain in _linked(uses, layer, shown)]
    taken: set[Step] = set()
    chains: list[Chain] = []
    for chain in sorted(found, key=len, reverse=True):
        steps = {step for cell in chain for step in cell.steps}
        if len(chain) > 1 and taken.isdisjoint(steps):
            taken |= steps
            chains.append(chain)
    return chains


def _linked(uses: Uses, layer: Chain, shown: Set[int]) -> list[Chain]:
    """Return the chains that the cells of one layer make, parted where a memory is shown."""
    after = {(cell.state, cell.memory): cell for cell in layer}
    following = {cell.output: after.get((cell.output, cell.next_memory)) for cell in layer}
    for cell in layer:
        behind = following[cell.output]
        if cell.next_memory in shown or not _keeps_memory(uses, cell, behind):
            following[cell.output] = None
    led_to = {cell.output for cell in following.values() if cell is not None}
    chains = []
    for cell in layer:
        if cell.output in led_to:
            continue
        chain: Chain = []
        behind = cell
        while behind is not None:
            chain.append(behind)
            behind = following[behind.output]
        chains.append(chain)
    return chains


def _keeps_memory(uses: Uses, cell: Cell, behind: Cell | None) -> bool:
    """Tell whether only a cell and the one behind it read its memory."""
    if cell.next_memory is None or behind is None:
        return True
    return all(
        reader in cell.steps or reader in behind.steps for reader in uses.readers(cell.next_memory)
    )


# -- rolling ----------------------------------------------------------------------------------


class _Roller:
    def __init__(self, program: Program, uses: Uses) -> None:
        self._program = program
        self._uses = uses
        self._positions = {step: position for position, step in enumerate(program.steps)}
        self._outputs = frozenset(program.outputs)

    def roll(self, chain: Chain) -> None:
        """Replace a chain by a layer, unless an input depends on what it writes."""
        if self._depends_on_itself(chain):
            return
        self._place = min(self._positions[step] for cell in chain for step in cell.steps)
        self._node = self._program.values[chain[0].of_state[0].weight].name
        for step in {step for cell in chain for step in cell.steps}:
            self._uses.remove(step)
        first, last = chain[0], chain[-1]
        data = self._sequence([cell.data for cell in chain])
        hidden = self._program.values[last.output].shape[1]
        op = RecurrentLayer(first.mode, hidden, first.order)
        states = [one for one in (first.state, first.memory) if one is not None]
        parameters = (
            self._joined([one.weight for one in first.of_data], first),
            self._joined([one.weight for one in first.of_state], first),
            self._joined([self._bias(*one) for one in first.of_data], first),
            self._joined([self._bias(*one) for one in first.of_state], first),
        )
        layer = self._made(op, (data, *states, *parameters))
        joined = layer.outputs[0]
        assert joined is not None
        outputs = [cell.output for cell in chain]
        self._join(joined, outputs)
        targets = [*layer.outputs]
        if self._is_wanted(outputs[:-1]):
            split = SliceChannel(num_outputs=len(outputs), axis=0, squeeze_axis=True)
            self._add(Step(split, self._node, (joined,), tuple(outputs)))
        elif self._is_wanted(outputs[-1:]):
            targets[1] = last.output
        if last.next_memory is not None:
            targets[2] = last.next_memory
        layer.outputs = tuple(targets)
        self._add(layer)

    def finish(self) -> None:
        """Give the program its new steps, without those whose results nothing reads any more."""
        for step in reversed(self._program.steps):
            if self._uses.has(step) and not self._is_wanted(step.writes()):
                self._uses.remove(step)
        self._program.replace_steps(self._in_order(), ())

    def _depends_on_itself(self, chain: Chain) -> bool:
        """Tell whether an input of the chain, or its first state, needs one of its outputs."""
        inside = {step for cell in chain for step in cell.steps}
        first = chain[0]
        stack: list[int | None] = [cell.data for cell in chain]
        stack += [first.state, first.memory]
        stack += itertools.chain.from_iterable((*first.of_data, *first.of_state))
        seen: set[Step] = set()
        while stack:
            value = stack.pop()
            step = None if value is None else self._uses.writer.get(value)
            if step in inside:
                return True
            if step is not None and step not in seen:
                seen.add(step)
                stack += step.reads()
        return False

    # -- what stands before and behind a layer --------------------------------------------------

    def _sequence(self, parts: Sequence[int]) -> int:
        """Return the value (steps, batch, inputs) of what the cells read one by one."""
        split = self._uses.writer.get(parts[0]) or self._uses.writer.get(parts[-1])
        if split is not None and getattr(split.op, "squeeze_axis", False):
            is_reversed = split.outputs == tuple(reversed(parts))
            if is_reversed or split.outputs == tuple(parts):
                source, axis = split.inputs[0], getattr(split.op, "axis", None)
                assert source is not None
                if axis == 1:
                    source = self._applied(SwapAxis(dim1=0, dim2=1), source)
                if axis in (0, 1):
                    return self._applied(Reverse(axis=(0,)), source) if is_reversed else source
        return self._applied(Stack(num_args=len(parts), axis=0), *parts)

    def _joined(self, parts: Sequence[int], cell: Cell) -> int:
        """Return the value whose rows are those of a cell's layers, with ``RNN``'s signs."""
        rows = list(parts)
        if cell.inverted is not None:
            count = len(cell.order) - len(parts) + 1
            split = self._made(SliceChannel(num_outputs=count, axis=0), (parts[0],))
            self._add(split)
            rows[:1] = split.writes()
            place = cell.order[cell.inverted]
            rows[place] = self._applied(make_operator("negative", self._node, {}), rows[place])
        return (
            rows[0] if len(rows) == 1 else self._applied(Concat(num_args=len(rows), dim=0), *rows)
        )

    def _bias(self, weight: int, bias: int | None) -> int:
        if bias is not None:
            return bias
        like = self._program.values[weight]
        zeros = self._program.new_value(f"{like.name}_no_bias", like.shape[:1], like.dtype)
        self._add(Step(Zeros(), self._node, (), (zeros.id,)))
        return zeros.id

    def _join(self, joined: int, outputs: Sequence[int]) -> None:
        """Let the layer's output (steps, batch, hidden) stand for what joined the cells'."""
        for step, axis in self._joining(outputs):
            (target,) = step.outputs
            assert target is not None
            self._uses.remove(step)
            for source in step.reads():
                before = self._uses.writer.get(source)
                if before is not None and not self._is_wanted(before.writes()):
                    self._uses.remove(before)
            source = self._applied(SwapAxis(dim1=0, dim2=1), joined) if axis else joined
            shaped = Reshape(shape=self._program.values[target].shape)
            self._add(Step(shaped, step.node, (source,), (target,)))

    def _joining(self, outputs: Sequence[int]) -> list[tuple[Step, int]]:
        """Return the steps that join all outputs in order, and the axis of the steps of time."""
        readers = self._uses.readers(outputs[0])
        behind = [self._uses.readers(one) for step in readers for one in step.writes()]
        found = []
        for step in dict.fromkeys((*readers, *itertools.chain.from_iterable(behind))):
            axis = self._joined_axis(step, outputs)
            if axis is not None:
                found.append((step, axis))
        return found

    def _joined_axis(self, step: Step, outputs: Sequence[int]) -> int | None:
        name, rank = step.op.names[0], len(self._program.values[step.writes()[0]].shape)
        if name not in ("Concat", "stack") or len(step.inputs) != len(outputs):
            return None
        axis = int(getattr(step.op, "dim" if name == "Concat" else "axis", 0)) % rank
        is_joined = step.inputs == tuple(outputs) or (
            name == "Concat"
            and all(map(self._expands, step.inputs, outputs, itertools.repeat(axis)))
        )
        return axis if is_joined and axis < 2 else None

    def _expands(self, value: int | None, source: int, axis: int) -> bool:
        """Tell whether a value is another with an axis of one element more."""
        step = None if value is None else self._uses.writer.get(value)
        if step is None or step.op.names[0] != "expand_dims" or step.inputs != (source,):
            return False
        return int(getattr(step.op, "axis", 0)) % 3 == axis

    # -- steps ----------------------------------------------------------------------------------

    def _applied(self, op: Operator, *inputs: int) -> int:
        """Add a step of one output and return that."""
        step = self._made(op, inputs)
        self._add(step)
        return step.writes()[0]

    def _made(self, op: Operator, inputs: Slots) -> Step:
        """Return a step with new values for its outputs."""
        values = [self._program.values[slot] for slot in inputs if slot is not None]
        unknown: list[Shape | None] = [None] * len(op.output_names())
        _, shapes = op.infer_shape([value.shape for value in values], unknown)
        outputs = []
        for name, shape in zip(op.output_names(), shapes, strict=True):
            assert shape is not None
            value = self._program.new_value(f"{self._node}_{name}", shape, values[0].dtype)
            outputs.append(value.id)
        return Step(op, self._node, inputs, tuple(outputs))

    def _add(self, step: Step) -> None:
        self._uses.add(step)
        self._positions[step] = self._place

    def _is_wanted(self, values: Iterable[int]) -> bool:
        """Tell whether anybody reads one of some values."""
        return any(value in self._outputs or self._uses.readers(value) for value in values)

    def _in_order(self) -> list[Step]:
        """Return the steps such that each comes after those it reads from, else as they were."""
        steps = [step for step in self._positions if self._uses.has(step)]
        ranks = {step: (self._positions[step], rank) for rank, step in enumerate(steps)}
        missing = {step: len(self._written_by(step)) for step in steps}
        ready = [ranks[step] for step in steps if not missing[step]]
        heapq.heapify(ready)
        ordered: list[Step] = []
        while ready:
            step = steps[heapq.heappop(ready)[1]]
            ordered.append(step)
            readers = {one: None for value in step.writes() for one in self._uses.readers(value)}
            for reader in readers:
                missing[reader] -= 1
                if not missing[reader]:
                    heapq.heappush(ready, ranks[reader])
        return ordered

    def _written_by(self, step: Step) -> set[Step]:
        """Return the steps that a step reads from."""
        writers = (self._uses.writer.get(value) for value in step.reads())
        return {writer for writer in writers if writer is not None}
