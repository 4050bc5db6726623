"""Recurrent cells in the forward pass of a program, found by what they compute.

A cell is written down as a pattern of operators, whatever the graph calls its nodes: that of LSTM
(Hochreiter and Schmidhuber 1997), of the GRU in cuDNN's form, and of the plain cell.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from core.executor.ir import Program, Step

__all__ = ["Cell", "Uses", "find_cells"]


class Uses:
    """Who writes and who reads each value, kept up to date while steps come and go."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self.writer: dict[int, Step] = {}
        self._readers: dict[int, dict[Step, None]] = {}
        for step in steps:
            self.add(step)

    def add(self, step: Step) -> None:
        """Take a step into account."""
        for value in step.writes():
            self.writer[value] = step
        for value in step.reads():
            self._readers.setdefault(value, {})[step] = None

    def remove(self, step: Step) -> None:
        """Take it out of account."""
        for value in step.writes():
            del self.writer[value]
        for value in step.reads():
            self._readers[value].pop(step, None)

    def readers(self, value: int) -> list[Step]:
        """Return the steps that read a value, once each."""
        return list(self._readers.get(value, ()))

    def has(self, step: Step) -> bool:
        """Tell whether a step is there."""
        return self.writer.get(step.writes()[0]) is step


class Dense(NamedTuple):
    """A fully connected layer: the values it reads, no bias for None."""

    data: int
    weight: int
    bias: int | None

    @property
    def parameters(self) -> tuple[int, int | None]:
        """Weight and bias."""
        return self.weight, self.bias


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell at one step of time.

    Attributes:
        mode: as ``RNN`` calls it.
        order: for each gate in ``RNN``'s order, its place in the rows of the weights.
        of_input, of_state: the layers; which is which is a matter of taste where they are added.
        memory: the memory before, None where the cell has none.
        output: the state after this step; ``next_memory`` likewise.
        steps: all that the cell consists of.
    """

    mode: str
    order: tuple[int, ...]
    of_input: Dense
    of_state: Dense
    memory: int | None
    output: int
    next_memory: int | None
    steps: frozenset[Step]

    @property
    def kind(self) -> tuple[object, ...]:
        """What the cells of one layer have in common."""
        return (self.mode, self.order, self.of_input.parameters, self.of_state.parameters)


@dataclasses.dataclass(frozen=True, eq=False)
class _Pattern:
    """How a value may have been computed.

    Each object stands for one value: where it occurs twice in a cell, both are the same.

    Attributes:
        head: what ``_head`` says of the step that wrote it; empty for any value.
        operands: patterns of what that step read, as far as they matter. They are tried in this
            order.
    """

    head: str = ""
    operands: tuple[_Pattern, ...] = ()


_DENSE = "dense"


def _part(count: int, of: _Pattern) -> _Pattern:
    """One of so many equal parts of the columns of another value."""
    return _Pattern(f"part of {count}", (of,))


def _plus(*operands: _Pattern) -> _Pattern:
    return _Pattern("plus", operands)


def _times(*operands: _Pattern) -> _Pattern:
    return _Pattern("times", operands)


def _sigmoid(operand: _Pattern) -> _Pattern:
    return _Pattern("sigmoid", (operand,))


def _tanh(operand: _Pattern) -> _Pattern:
    return _Pattern("tanh", (operand,))


_FUNCTIONS = {
    "elemwise_add": "plus",
    "broadcast_add": "plus",
    "elemwise_mul": "times",
    "broadcast_mul": "times",
    "elemwise_sub": "minus",
    "broadcast_sub": "minus",
    "ones_like": "one",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "relu": "relu",
}
"""By canonical name of the operator; ``Activation`` names its function itself."""

_COMMUTATIVE = ("plus", "times")


@dataclasses.dataclass(frozen=True)
class _CellPattern:
    """What a cell's output is.

    Attributes:
        mode: as ``RNN`` calls it.
        output: the pattern.
        gates: in ``RNN``'s order, the parts that go into each gate; empty for a single one.
        of_input, of_state: the layers.
        state, memory: what is known to be the state and the memory before.
        next_memory: the memory after.
        may_swap: whether the two layers are alike.
    """

    mode: str
    output: _Pattern
    gates: tuple[tuple[_Pattern, ...], ...]
    of_input: _Pattern
    of_state: _Pattern
    state: _Pattern | None = None
    memory: _Pattern | None = None
    next_memory: _Pattern | None = None
    may_swap: bool = True


def _lstm() -> _CellPattern:
    one, other, memory = _Pattern(_DENSE), _Pattern(_DENSE), _Pattern()
    sums = _plus(one, other)
    write, forget, candidate, show = (_part(4, sums) for _ in range(4))
    following = _plus(_times(_tanh(candidate), _sigmoid(write)), _times(_sigmoid(forget), memory))
    return _CellPattern(
        mode="lstm",
        output=_times(_tanh(following), _sigmoid(show)),
        gates=((write,), (forget,), (candidate,), (show,)),
        of_input=one,
        of_state=other,
        memory=memory,
        next_memory=following,
    )


def _gru(*, is_from_ones: bool) -> _CellPattern:
    of_input, of_state, state = _Pattern(_DENSE), _Pattern(_DENSE), _Pattern()
    parts = [(_part(3, of_input), _part(3, of_state)) for _ in range(3)]
    reset, update = (_sigmoid(_plus(*pair)) for pair in parts[:2])
    # The hidden part comes first: it tells which layer is the state's.
    candidate = _tanh(_plus(_times(parts[2][1], reset), parts[2][0]))
    rest = _Pattern("one minus", (update,))
    if is_from_ones:
        rest = _Pattern("minus", (_Pattern("one", (update,)), update))
    return _CellPattern(
        mode="gru",
        output=_plus(_times(candidate, rest), _times(update, state)),
        gates=tuple(parts),
        of_input=of_input,
        of_state=of_state,
        state=state,
        may_swap=False,
    )


def _plain(function: str) -> _CellPattern:
    one, other = _Pattern(_DENSE), _Pattern(_DENSE)
    output = _Pattern(function, (_plus(one, other),))
    return _CellPattern(f"rnn_{function}", output, (), one, other)


_CELLS: dict[str, tuple[_CellPattern, ...]] = {
    "times": (_lstm(),),
    "plus": (_gru(is_from_ones=False), _gru(is_from_ones=True)),
    "tanh": (_plain("tanh"),),
    "relu": (_plain("relu"),),
}
"""By the head of a cell's output."""


def find_cells(program: Program, uses: Uses) -> list[Cell]:
    """Return the cells of a forward pass, in its order.

    Nobody sees what is inside a cell, but its next memory may be read by anyone. A cell whose two
    layers are alike is there twice, for either may be the one of the input.
    """
    heads = {value: _head(program, step) for value, step in uses.writer.items()}
    if _DENSE not in heads.values():
        return []
    cells: list[Cell] = []
    for output, head in heads.items():
        for pattern in _CELLS.get(head, ()):
            match = _Match(uses, heads)
            if match.fits(pattern.output, output):
                cells += _cells_of(program, uses, pattern, match.found)
                break
    return cells


def _cells_of(
    program: Program, uses: Uses, pattern: _CellPattern, found: Mapping[_Pattern, int]
) -> Iterator[Cell]:
    steps = frozenset(uses.writer[value] for pattern, value in found.items() if pattern.head)
    shown = {found[pattern.output]}
    if pattern.next_memory is not None:
        shown.add(found[pattern.next_memory])
    of_input = _dense(uses.writer[found[pattern.of_input]])
    of_state = _dense(uses.writer[found[pattern.of_state]])
    places = [{_place(uses, found[part]) for part in gate} for gate in pattern.gates] or [{0}]
    order = tuple(itertools.chain.from_iterable(places))
    if (
        not _is_closed(program, uses, steps, shown)
        or sorted(order) != list(range(len(places)))
        or (pattern.state is not None and found[pattern.state] != of_state.data)
    ):
        return
    cell = Cell(
        mode=pattern.mode,
        order=order,
        of_input=of_input,
        of_state=of_state,
        memory=None if pattern.memory is None else found[pattern.memory],
        output=found[pattern.output],
        next_memory=None if pattern.next_memory is None else found[pattern.next_memory],
        steps=steps,
    )
    yield cell
    if pattern.may_swap:
        yield dataclasses.replace(cell, of_input=of_state, of_state=of_input)


def _is_closed(program: Program, uses: Uses, steps: frozenset[Step], shown: set[int]) -> bool:
    """Tell whether nobody reads what the steps write, but for the values shown."""
    written = {value for step in steps for value in step.writes()} - shown
    if not written.isdisjoint(program.outputs):
        return False
    return all(reader in steps for value in written for reader in uses.readers(value))


def _place(uses: Uses, part: int) -> int:
    return uses.writer[part].outputs.index(part)


def _dense(step: Step) -> Dense:
    data, weight, *bias = step.inputs
    assert data is not None
    assert weight is not None
    return Dense(data, weight, bias[0] if bias else None)


def _head(program: Program, step: Step) -> str:
    """Return what a step computes of operands of its own shape, or that it is a layer of rows or
    parts columns; an empty text for what no cell has."""
    op = step.op
    name = op.names[0]
    function = getattr(op, "act_type", "") if name == "Activation" else _FUNCTIONS.get(name, "")
    if name == "_rminus_scalar" and getattr(op, "scalar", None) == 1:
        function = "one minus"
    shapes = [program.values[slot].shape for slot in step.inputs if slot is not None]
    if function:
        shape = program.values[step.writes()[0]].shape
        return function if all(one == shape for one in shapes) else ""
    if name == "FullyConnected" and len(shapes[0]) == 2:
        return _DENSE
    if name != "SliceChannel" or len(shapes[0]) != 2 or getattr(op, "squeeze_axis", True):
        return ""
    return f"part of {len(step.outputs)}" if getattr(op, "axis", None) in (1, -1) else ""


class _Match:
    """An attempt to read a value as a pattern.

    Attributes:
        found: what each pattern stands for.
    """

    def __init__(self, uses: Uses, heads: Mapping[int, str]) -> None:
        self._uses = uses
        self._heads = heads
        self.found: dict[_Pattern, int] = {}

    def fits(self, pattern: _Pattern, value: int) -> bool:
        """Tell whether a value is what a pattern says, and what has been found stays true."""
        known = self.found.get(pattern)
        if known is not None:
            return known == value
        if pattern.head and self._heads.get(value) != pattern.head:
            return False
        mark = len(self.found)
        self.found[pattern] = value
        if not pattern.operands:
            return True
        sources = self._uses.writer[value].reads()
        if self._all_fit(pattern.operands, sources):
            return True
        if pattern.head in _COMMUTATIVE and self._all_fit(pattern.operands, sources[::-1]):
            return True
        self._forget(mark)
        return False

    def _all_fit(self, patterns: Sequence[_Pattern], values: Sequence[int]) -> bool:
        mark = len(self.found)
        for pattern, value in zip(patterns, values, strict=True):
            if not self.fits(pattern, value):
                self._forget(mark)
                return False
        return True

    def _forget(self, mark: int) -> None:
        while len(self.found) > mark:
            self.found.popitem()
