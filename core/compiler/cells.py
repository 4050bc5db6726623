"""Pattern matching for recurrent cells in the forward pass of a program.

A cell is described as a pattern of operators, regardless of node names. There are patterns for the
LSTM (Hochreiter and Schmidhuber 1997), the GRU as first published (Cho et al. 2014) and in cuDNN's
variant, and the plain (Elman) cell.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..capabilities.arrays import SLICING, SPLIT
from ..capabilities.functions import Arithmetic, Function, is_relu, linear
from ..capabilities.kinds import is_of
from ..capabilities.layers import FULLY_CONNECTED
from ..ops import Operator
from .edit import Uses
from .ir import Program, Step

__all__ = ["Cell", "find_cells"]


class Dense(NamedTuple):
    """Parameters of a fully connected layer; None for no bias."""

    weight: int
    bias: int | None


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell at one time step.

    Attributes:
        mode: the ``mode`` of the equivalent ``RNN`` operator.
        order: for each gate in ``RNN``'s order, its position in the rows of the weights.
        inverted: the gate whose sign differs from ``RNN``'s; None if there is none.
        data, state, memory: the inputs; ``memory`` is None for cells without one. Data and state
            are interchangeable in a cell that treats both alike.
        of_data, of_state: the layers applied to data and state; their rows are concatenated.
        output, next_memory: state and memory after this step.
        steps: all steps that the cell consists of.
    """

    mode: str
    order: tuple[int, ...]
    inverted: int | None
    data: int
    state: int
    memory: int | None
    of_data: tuple[Dense, ...]
    of_state: tuple[Dense, ...]
    output: int
    next_memory: int | None
    steps: frozenset[Step]

    @property
    def kind(self) -> tuple[object, ...]:
        """A key that all cells of one layer have in common."""
        return (self.mode, self.order, self.inverted, self.of_data, self.of_state)


@dataclasses.dataclass(frozen=True, eq=False)
class _Pattern:
    """How a value must have been computed to match.

    Patterns are compared by identity: one object that occurs twice must match the same value.

    Attributes:
        operation: what ``_operation`` returns for the step that wrote the value; empty matches any
            value.
        operands: patterns of that step's inputs, as far as they matter, tried in this order.
    """

    operation: str = ""
    operands: tuple[_Pattern, ...] = ()


_DENSE = "dense"


def _dense(data: _Pattern) -> _Pattern:
    """A fully connected layer applied to each row."""
    return _Pattern(_DENSE, (data,))


def _part(count: int, of: _Pattern) -> _Pattern:
    """One of several equal parts of the columns of another value."""
    return _Pattern(f"part of {count}", (of,))


def _plus(*operands: _Pattern) -> _Pattern:
    return _Pattern("plus", operands)


def _times(*operands: _Pattern) -> _Pattern:
    return _Pattern("times", operands)


def _sigmoid(operand: _Pattern) -> _Pattern:
    return _Pattern("sigmoid", (operand,))


def _tanh(operand: _Pattern) -> _Pattern:
    return _Pattern("tanh", (operand,))


_ARITHMETIC = {
    Arithmetic.ADD: "plus",
    Arithmetic.MULTIPLY: "times",
    Arithmetic.SUBTRACT: "minus",
}
_FUNCTIONS = {Function.SIGMOID: "sigmoid", Function.TANH: "tanh"}
_COMMUTATIVE = ("plus", "times")


@dataclasses.dataclass(frozen=True)
class _CellPattern:
    """The patterns of a cell's output and of its parts.

    Attributes:
        mode: the ``mode`` of the equivalent ``RNN`` operator.
        output: the pattern of the output.
        data, state, memory: the cell's inputs.
        of_data, of_state: its layers; each one after the first computes a single gate.
        gates: for each gate in ``RNN``'s order, the parts of the first layers that enter it;
            empty for a single gate.
        next_memory: the memory after the step.
        inverted: as in ``Cell``.
        may_swap: whether the cell treats data and state alike.
    """

    mode: str
    output: _Pattern
    data: _Pattern
    state: _Pattern
    of_data: tuple[_Pattern, ...]
    of_state: tuple[_Pattern, ...]
    gates: tuple[tuple[_Pattern, ...], ...] = ()
    memory: _Pattern | None = None
    next_memory: _Pattern | None = None
    inverted: int | None = None
    may_swap: bool = False

    @functools.cached_property
    def operations(self) -> frozenset[str]:
        """All operations in it."""
        operations, stack = set(), [self.output]
        while stack:
            pattern = stack.pop()
            operations.add(pattern.operation)
            stack += pattern.operands
        return frozenset(operations - {""})


def _lstm() -> _CellPattern:
    data, state, memory = _Pattern(), _Pattern(), _Pattern()
    of_data, of_state = _dense(data), _dense(state)
    sums = _plus(of_data, of_state)
    write, forget, candidate, show = (_part(4, sums) for _ in range(4))
    following = _plus(_times(_tanh(candidate), _sigmoid(write)), _times(_sigmoid(forget), memory))
    return _CellPattern(
        "lstm",
        _times(_tanh(following), _sigmoid(show)),
        data,
        state,
        (of_data,),
        (of_state,),
        gates=((write,), (forget,), (candidate,), (show,)),
        memory=memory,
        next_memory=following,
        may_swap=True,
    )


_Blend = Callable[[_Pattern, _Pattern, _Pattern], _Pattern]
"""Combines candidate, update gate and state into the output."""


def _with_number(candidate: _Pattern, update: _Pattern, state: _Pattern) -> _Pattern:
    """As ``mx.rnn.GRUCell`` writes it: ``1 - update`` by a number."""
    rest = _Pattern("one minus", (update,))
    return _plus(_times(candidate, rest), _times(update, state))


def _with_ones(candidate: _Pattern, update: _Pattern, state: _Pattern) -> _Pattern:
    """As Gluon's ``GRUCell`` writes it: ``ones_like(update) - update``."""
    rest = _Pattern("minus", (_Pattern("one", (update,)), update))
    return _plus(_times(candidate, rest), _times(update, state))


def _stepwise(candidate: _Pattern, update: _Pattern, state: _Pattern) -> _Pattern:
    """Here the gate weights the candidate rather than the old state."""
    return _plus(_times(_Pattern("minus", (candidate, state)), update), state)


_BLENDS: tuple[_Blend, ...] = (_with_number, _with_ones, _stepwise)
_UPDATE = 1
"""The update gate's position in ``RNN``'s order."""


def _gru(blend: _Blend) -> _CellPattern:
    data, state = _Pattern(), _Pattern()
    of_data, of_state = _dense(data), _dense(state)
    parts = [(_part(3, of_data), _part(3, of_state)) for _ in range(3)]
    reset, update = (_sigmoid(_plus(*pair)) for pair in parts[:2])
    # The state's part comes first, because it decides which layer is the state's: the reset gate
    # multiplies only that, whereas data and state enter the other two gates alike.
    candidate = _tanh(_plus(_times(parts[2][1], reset), parts[2][0]))
    return _CellPattern(
        "gru",
        blend(candidate, update, state),
        data,
        state,
        (of_data,),
        (of_state,),
        gates=tuple(parts),
        inverted=_UPDATE if blend is _stepwise else None,
    )


def _gru_reset_first(blend: _Blend) -> _CellPattern:
    data, state = _Pattern(), _Pattern()
    of_data, of_state = _dense(data), _dense(state)
    sums = _plus(of_data, of_state)
    reset, update = _part(2, sums), _part(2, sums)
    was_reset = _dense(_times(_sigmoid(reset), state))
    beside = _dense(data)
    return _CellPattern(
        "gru_reset_first",
        blend(_tanh(_plus(was_reset, beside)), _sigmoid(update), state),
        data,
        state,
        (of_data, beside),
        (of_state, was_reset),
        gates=((reset,), (update,)),
        inverted=_UPDATE if blend is _stepwise else None,
    )


def _plain(function: str) -> _CellPattern:
    data, state = _Pattern(), _Pattern()
    of_data, of_state = _dense(data), _dense(state)
    output = _Pattern(function, (_plus(of_data, of_state),))
    return _CellPattern(
        f"rnn_{function}", output, data, state, (of_data,), (of_state,), may_swap=True
    )


_CELLS = (
    _lstm(),
    *map(_gru, _BLENDS),
    *map(_gru_reset_first, _BLENDS),
    _plain("tanh"),
    _plain("relu"),
)


def find_cells(program: Program, uses: Uses) -> list[Cell]:
    """Return the cells of a forward pass, in order of execution.

    No step outside a cell reads its intermediate values, except for its next memory. A cell that
    treats data and state alike is returned twice, once for each assignment of the two.
    """
    operations = {value: _operation(program, step) for value, step in uses.writer.items()}
    present = frozenset(operations.values())
    patterns: dict[str, list[_CellPattern]] = {}
    for pattern in _CELLS:
        if pattern.operations <= present:
            patterns.setdefault(pattern.output.operation, []).append(pattern)
    cells: list[Cell] = []
    for output, operation in operations.items():
        for pattern in patterns.get(operation, ()):
            match = _Match(uses, operations)
            if match.fits(pattern.output, output):
                cells += _cells_of(program, uses, pattern, match.found)
                break  # no other pattern fits what fits this one
    return cells


def _cells_of(
    program: Program, uses: Uses, pattern: _CellPattern, found: Mapping[_Pattern, int]
) -> Iterator[Cell]:
    steps = frozenset(uses.writer[value] for one, value in found.items() if one.operation)
    memory = None if pattern.memory is None else found[pattern.memory]
    next_memory = None if pattern.next_memory is None else found[pattern.next_memory]
    output = found[pattern.output]
    places = [{_place(program, uses, found[part]) for part in gate} for gate in pattern.gates] or [
        {0}
    ]
    # If the layers of data and state have a gate in different places, both are in ``order``, which
    # then is too long.
    order = list(itertools.chain.from_iterable(places))
    if not _is_closed(program, uses, steps, shown={output, next_memory}) or sorted(order) != list(
        range(len(places))
    ):
        return
    # The rows of the layers after the first are concatenated behind those of the first.
    order += range(len(order), len(order) + len(pattern.of_data) - 1)
    cell = Cell(
        mode=pattern.mode,
        order=tuple(order),
        inverted=pattern.inverted,
        data=found[pattern.data],
        state=found[pattern.state],
        memory=memory,
        of_data=tuple(_parameters(uses.writer[found[one]]) for one in pattern.of_data),
        of_state=tuple(_parameters(uses.writer[found[one]]) for one in pattern.of_state),
        output=output,
        next_memory=next_memory,
        steps=steps,
    )
    yield cell
    if pattern.may_swap:
        yield dataclasses.replace(
            cell, data=cell.state, state=cell.data, of_data=cell.of_state, of_state=cell.of_data
        )


def _is_closed(
    program: Program, uses: Uses, steps: frozenset[Step], shown: set[int | None]
) -> bool:
    """Return whether only these steps read what they write, except for the values ``shown``."""
    written = {value for step in steps for value in step.writes()} - shown
    if not written.isdisjoint(program.outputs):
        return False
    return all(reader in steps for value in written for reader in uses.readers(value))


def _place(program: Program, uses: Uses, part: int) -> int:
    """Return the position of a value among the parts of the columns it was split from."""
    step = uses.writer[part]
    _, first = _parted(program, step)
    return first + step.outputs.index(part)


def _parted(program: Program, step: Step) -> tuple[int, int]:
    """Return into how many equal parts a step splits the columns of a matrix, and which of them
    its first output is; 0 parts if it does something else."""
    op, nothing = step.op, (0, 0)
    shapes = [program.values[value].shape for value in step.reads()]
    if len(shapes) != 1 or len(shapes[0]) != 2:
        return nothing
    (shape,) = shapes
    if is_of(op, SPLIT):
        if op.squeeze_axis or op.axis not in (1, -1):
            return nothing
        bounds = op.bounds(shape[1])
        widths = {stop - start for start, stop in itertools.pairwise(bounds)}
        return (len(bounds) - 1, 0) if len(widths) == 1 else nothing
    if not is_of(op, SLICING):
        return nothing
    region = op.region(shape, program.values[step.writes()[0]].shape)
    rows, columns = (*region, *[slice(None)] * (2 - len(region)))
    start, stop, stride = columns.indices(shape[1])
    width = stop - start
    has_all_rows = rows.indices(shape[0]) == (0, shape[0], 1)
    is_part = stride == 1 and shape[1] % width == 0 and start % width == 0
    return (shape[1] // width, start // width) if has_all_rows and is_part else nothing


def _parameters(step: Step) -> Dense:
    _, weight, *bias = step.inputs
    assert weight is not None
    return Dense(weight, bias[0] if bias else None)


def _operation(program: Program, step: Step) -> str:
    """Return a step's operation as patterns call it: an elementwise function of operands of its own
    shape, a layer applied to rows, or a split of columns; empty if no pattern has such a step."""
    function = _function(step.op)
    shapes = [program.values[slot].shape for slot in step.inputs if slot is not None]
    if function:
        shape = program.values[step.writes()[0]].shape
        return function if all(one == shape for one in shapes) else ""
    if is_of(step.op, FULLY_CONNECTED):
        return _DENSE if len(shapes[0]) == 2 else ""
    count, _ = _parted(program, step)
    return f"part of {count}" if count else ""


def _function(op: Operator) -> str:
    """Return the elementwise function of an operator; empty if no pattern has it."""
    arithmetic, function = op.arithmetic(), op.pointwise()
    if arithmetic is not None:
        return _ARITHMETIC.get(arithmetic, "")
    if op.fills_with() == 1:
        return "one"
    if function == linear(-1.0, 1.0):
        return "one minus"
    if is_relu(function):
        return "relu"
    return "" if function is None else _FUNCTIONS.get(function.function, "")


class _Match:
    """An attempt to match a value with a pattern.

    Attributes:
        found: the value matched with each pattern.
    """

    def __init__(self, uses: Uses, operations: Mapping[int, str]) -> None:
        self._uses = uses
        self._operations = operations
        self.found: dict[_Pattern, int] = {}

    def fits(self, pattern: _Pattern, value: int) -> bool:
        """Return whether a value matches a pattern, consistently with what was matched before.

        The first order in which the operands of a commutative operation fit is kept, even if a
        later operand then does not. So patterns name the operand first that can fit in one place
        only.
        """
        known = self.found.get(pattern)
        if known is not None:
            return known == value
        if pattern.operation and self._operations.get(value) != pattern.operation:
            return False
        mark = len(self.found)
        self.found[pattern] = value
        if not pattern.operands:
            return True
        sources = self._uses.writer[value].reads()[: len(pattern.operands)]
        if self._all_fit(pattern.operands, sources):
            return True
        if pattern.operation in _COMMUTATIVE and self._all_fit(pattern.operands, sources[::-1]):
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
