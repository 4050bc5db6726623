"""Loop rerolling: the cells of an unrolled recurrent layer become one step.

A graph unrolled for sixty time steps has thousands of nodes. If cells with the same parameters pass
their state from one to the next, and no input depends on a state, they form a layer that
``RecurrentLayer`` runs at once: a single matrix product for the inputs of all cells, and one for
the gradients of the weights. The operators that split a sequence for the cells, process every
output in the same way, or concatenate the outputs, are replaced as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence, Set

import numpy as np

from ..ops import make_operator
from ..ops.joining import Concat
from ..ops.slicing import SliceChannel
from .cells import Cell, find_cells
from .edit import Edit, Uses
from .ir import Program, Step
from .padding import Padding, find_paddings, hides_padding, pad_data, pad_weight
from .primitives import Zeros
from .recurrent import RecurrentLayer
from .sequences import Sequences

__all__ = ["reroll"]

_DTYPES = (np.dtype("float32"), np.dtype("float64"))
"""In other dtypes results would differ: there each operator rounds, but a fused layer does not."""

Chain = list[Cell]
Paddings = Mapping[tuple[int | None, ...], Padding]
"""By the memories after all steps."""


def reroll(program: Program, kept: Set[Step] = frozenset()) -> None:
    """Replace unrolled recurrent layers by ``RecurrentLayer`` steps.

    Args:
        program: a traced forward pass; changed in place.
        kept: steps that must not be replaced.
    """
    uses = Uses(program.steps)
    cells = [cell for cell in find_cells(program, uses) if cell.steps.isdisjoint(kept)]
    paddings = find_paddings(program, uses)
    chains = _chains(program, uses, cells, paddings)
    if not chains:
        return
    edit = Edit(program, uses)
    sequences = Sequences(edit, (step for chain in chains for step in _steps(chain)))
    # Only concatenations that may be over the time steps of a layer.
    lengths = {len(chain) for chain in chains}
    for step in program.steps:
        if len(step.inputs) in lengths:
            sequences.flatten(step)
    roller = _Roller(edit, sequences)
    # The last layer first: the step that reads its inputs must exist when the layer below, which
    # produces these, is rolled.
    for chain in sorted(chains, key=lambda chain: -chain[-1].output):
        roller.reroll(chain, paddings.get(_memories(chain)))
    edit.finish()


# -- finding layers ---------------------------------------------------------------------------


def _chains(program: Program, uses: Uses, cells: Iterable[Cell], paddings: Paddings) -> list[Chain]:
    """Return chains of consecutive cells, longest first; each cell is in one chain at most."""
    layers: dict[tuple[object, ...], Chain] = {}
    for cell in cells:
        if program.values[cell.output].dtype in _DTYPES:
            layers.setdefault(cell.kind, []).append(cell)
    shown = frozenset(program.outputs)
    stacks = {padding.stack for padding in paddings.values()}
    found = [chain for layer in layers.values() for chain in _linked(uses, layer, shown, stacks)]
    taken: set[Step] = set()
    chains: list[Chain] = []
    # Of a cell that is there in both assignments of data and state, only the right one continues
    # a chain, along which it is the state that is passed on.
    for chain in sorted(found, key=len, reverse=True):
        steps = _steps(chain)
        if len(chain) < 2 or not _hides_memories(program, uses, chain, paddings):
            continue
        if taken.isdisjoint(steps):
            taken |= steps
            chains.append(chain)
    return chains


def _linked(uses: Uses, layer: Chain, shown: Set[int], stacks: Set[Step]) -> list[Chain]:
    """Return the chains of one layer's cells, split where a memory is shown or read outside the
    layer by other steps than ``stacks``."""
    after = {(cell.state, cell.memory): cell for cell in layer}
    following = {cell.output: after.get((cell.output, cell.next_memory)) for cell in layer}
    for cell in layer:
        behind = following[cell.output]
        if cell.next_memory in shown or not _keeps_memory(uses, cell, behind, stacks):
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


def _keeps_memory(
    uses: Uses, cell: Cell, behind: Cell | None, stacks: Set[Step] = frozenset()
) -> bool:
    """Return whether only a cell, its successor and ``stacks`` read its memory."""
    if cell.next_memory is None or behind is None:
        return True
    readers = {*cell.steps, *behind.steps, *stacks}
    return readers.issuperset(uses.readers(cell.next_memory))


def _hides_memories(program: Program, uses: Uses, chain: Chain, paddings: Paddings) -> bool:
    """Return whether all that is read of a chain's memories is the last of each sequence."""
    if all(_keeps_memory(uses, *pair) for pair in itertools.pairwise(chain)):
        return True
    padding = paddings.get(_memories(chain))
    return padding is not None and hides_padding(program, uses, chain, padding)


def _memories(chain: Chain) -> tuple[int | None, ...]:
    return tuple(cell.next_memory for cell in chain)


# -- rolling ----------------------------------------------------------------------------------


def _steps(chain: Chain) -> set[Step]:
    """Return the steps within the cells."""
    return {step for cell in chain for step in cell.steps}


class _Roller:
    """Replaces chains of cells.

    Args:
        edit: of the program.
        sequences: what the cells read and write, as sequences.
    """

    def __init__(self, edit: Edit, sequences: Sequences) -> None:
        self._edit = edit
        self._sequences = sequences

    def reroll(self, chain: Chain, padding: Padding | None) -> None:
        """Replace a chain by a layer, unless an input depends on what it writes.

        Args:
            chain: the cells.
            padding: of the sequences, if the memories at their ends are wanted.
        """
        if self._depends_on_itself(chain, padding):
            return
        first, last = chain[0], chain[-1]
        self._edit.begin(self._edit.program.values[first.of_state[0].weight].name, _steps(chain))
        for step in _steps(chain):
            self._edit.uses.remove(step)
        data = self._sequences.sequence([cell.data for cell in chain])
        weight = self._joined([one.weight for one in first.of_data], first)
        if padding is not None:
            self._edit.uses.remove(padding.stack)
            self._edit.uses.remove(padding.last)
            data = pad_data(self._edit, data, padding.lengths)
            weight = pad_weight(self._edit, weight, first.order)
        hidden = self._edit.program.values[last.output].shape[1]
        op = RecurrentLayer(first.mode, hidden, first.order)
        states = [one for one in (first.state, first.memory) if one is not None]
        parameters = (
            weight,
            self._joined([one.weight for one in first.of_state], first),
            self._joined([self._bias(*one) for one in first.of_data], first),
            self._joined([self._bias(*one) for one in first.of_state], first),
        )
        layer = self._edit.made(op, (data, *states, *parameters))
        joined = layer.outputs[0]
        assert joined is not None
        outputs = [cell.output for cell in chain]
        self._sequences.join(joined, outputs)
        targets = [*layer.outputs]
        # The values of the graph keep their ids, whoever writes them now: other steps read them.
        if self._edit.is_wanted(outputs[:-1]):
            split = SliceChannel(num_outputs=len(outputs), axis=0, squeeze_axis=True)
            self._edit.add(Step(split, self._edit.node, (joined,), tuple(outputs)))
        elif self._edit.is_wanted(outputs[-1:]):
            targets[1] = last.output
        if padding is not None:
            (targets[2],) = padding.last.writes()
        elif last.next_memory is not None:
            targets[2] = last.next_memory
        layer.outputs = tuple(targets)
        self._edit.add(layer)
        self._sequences.flatten_stacks()

    def _depends_on_itself(self, chain: Chain, padding: Padding | None) -> bool:
        """Return whether an input of the chain, its first state, or the lengths of its sequences
        depend on its outputs."""
        inside = _steps(chain)
        first = chain[0]
        stack: list[int | None] = [cell.data for cell in chain]
        stack += [first.state, first.memory, None if padding is None else padding.lengths]
        stack += itertools.chain.from_iterable((*first.of_data, *first.of_state))
        seen: set[Step] = set()
        while stack:
            value = stack.pop()
            step = None if value is None else self._edit.uses.writer.get(value)
            if step in inside:
                return True
            if step is not None and step not in seen:
                seen.add(step)
                stack += step.reads()
        return False

    def _joined(self, parts: Sequence[int], cell: Cell) -> int:
        """Return the concatenated rows of a cell's parameters, with the signs that ``RNN`` uses."""
        rows = list(parts)
        if cell.inverted is not None:
            # The logistic function of -x is 1 - that of x, so the sign of the gate's rows swaps
            # which of state and candidate it weights.
            count = len(cell.order) - len(parts) + 1
            split = self._edit.made(SliceChannel(num_outputs=count, axis=0), (parts[0],))
            self._edit.add(split)
            rows[:1] = split.writes()
            place = cell.order[cell.inverted]
            rows[place] = self._edit.applied(
                make_operator("negative", self._edit.node, {}), rows[place]
            )
        return (
            rows[0]
            if len(rows) == 1
            else self._edit.applied(Concat(num_args=len(rows), dim=0), *rows)
        )

    def _bias(self, weight: int, bias: int | None) -> int:
        if bias is not None:
            return bias
        like = self._edit.program.values[weight]
        zeros = self._edit.program.new_value(f"{like.name}_no_bias", like.shape[:1], like.dtype)
        self._edit.add(Step(Zeros(), self._edit.node, (), (zeros.id,)))
        return zeros.id
