"""Padded sequences in unrolled LSTMs: the memory at the end of each sequence.

With ``valid_length``, Gluon's ``unroll`` stacks the memories of all steps and takes, of each
sequence, the one after its last step. A rolled layer has only the memory after the last step of
all. It is the same if padding leaves the memory unchanged, so the layer gets one more column of
data, 1 in padding: its weights close the input gate and open the forget gate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..capabilities.arrays import SEQUENCE_LAST, SEQUENCE_MASK, STACK
from ..capabilities.kinds import is_of
from ..ops import make_operator
from ..ops.init import Full
from ..ops.joining import Concat
from ..ops.sequence import SequenceMask
from ..types import Shape
from .cells import Cell
from .edit import Edit, Uses
from .ir import Program, Step

__all__ = ["Padding", "find_paddings", "hides_padding", "pad_data", "pad_weight"]

_SATURATION = 1e6
"""What is added to a gate that must be open; the logistic function is 1 there, and 0 at -1e6."""


class Padding(NamedTuple):
    """How a graph takes the memories at the ends of sequences.

    Attributes:
        lengths: the lengths of the sequences.
        stack: the step that stacks the memories of all time steps.
        last: the step that takes the last memory of each sequence.
    """

    lengths: int
    stack: Step
    last: Step


def find_paddings(program: Program, uses: Uses) -> dict[tuple[int | None, ...], Padding]:
    """Return what is stacked and read by nothing but ``SequenceLast``, with its lengths."""
    found: dict[tuple[int | None, ...], Padding] = {}
    for last in program.steps:
        if not is_of(last.op, SEQUENCE_LAST) or not last.op.use_sequence_length:
            continue
        stacked, lengths = last.reads()
        stack = uses.writer.get(stacked)
        if stack is None or not is_of(stack.op, STACK) or stacked in program.outputs:
            continue
        rank = len(program.values[stacked].shape)
        if last.op.axis == stack.op.axis % rank == 0 and uses.readers(stacked) == [last]:
            found[tuple(stack.reads())] = Padding(lengths, stack, last)
    return found


def hides_padding(program: Program, uses: Uses, chain: Sequence[Cell], padding: Padding) -> bool:
    """Return whether no result depends on what cells compute in padding."""
    steps = {step for cell in chain for step in cell.steps}
    outputs = tuple(cell.output for cell in chain)
    memories = {cell.next_memory for cell in chain}
    outside = {reader for value in outputs for reader in uses.readers(value)} - steps
    behind = {
        reader for value in memories if value is not None for reader in uses.readers(value)
    } - steps
    # In padding, the outputs differ from the graph's as well, whose data is not masked there.
    if behind != {padding.stack} or not memories.union(outputs).isdisjoint(program.outputs):
        return False
    return all(_is_cut(program, uses, stack, outputs, padding.lengths) for stack in outside)


def _is_cut(
    program: Program, uses: Uses, stack: Step, outputs: tuple[int, ...], lengths: int
) -> bool:
    """Return whether a step stacks the outputs, and padding of the result is never read."""
    if not is_of(stack.op, STACK) or tuple(stack.reads()) != outputs:
        return False
    (stacked,) = stack.writes()
    axis = stack.op.axis % len(program.values[stacked].shape)
    return stacked not in program.outputs and all(
        (is_of(reader.op, SEQUENCE_LAST) or is_of(reader.op, SEQUENCE_MASK))
        and reader.reads() == [stacked, lengths]
        and reader.op.axis == axis
        for reader in uses.readers(stacked)
    )


def pad_data(edit: Edit, data: int, lengths: int) -> int:
    """Return data (steps, batch, columns) with zeros in padding, and one more column: 1 there."""
    steps, batch, _ = edit.shape(data)
    # SequenceLast takes the first step of a sequence without any.
    lengths = edit.applied(make_operator("_maximum_scalar", edit.node, {"scalar": "1"}), lengths)
    zeros = _filled(edit, (steps, batch, 1), 0.0, data)
    is_padding = edit.applied(SequenceMask(use_sequence_length=True, value=1.0), zeros, lengths)
    # Padding may hold anything, such as NaN, which no weight of the new column could outvote.
    masked = edit.applied(SequenceMask(use_sequence_length=True), data, lengths)
    return edit.applied(Concat(num_args=2, dim=2), masked, is_padding)


def pad_weight(edit: Edit, weight: int, order: Sequence[int]) -> int:
    """Return the weight for such data.

    Args:
        edit: of the program.
        weight: the weight (gates · hidden, columns).
        order: the positions of the input gate, the forget gate, and the others among its rows.
    """
    hidden = edit.shape(weight)[0] // len(order)
    values = dict(zip(order, (-_SATURATION, _SATURATION), strict=False))
    gates = [
        _filled(edit, (hidden, 1), values.get(place, 0.0), weight) for place in range(len(order))
    ]
    column = edit.applied(Concat(num_args=len(gates), dim=0), *gates)
    return edit.applied(Concat(num_args=2, dim=1), weight, column)


def _filled(edit: Edit, shape: Shape, number: float, like: int) -> int:
    """Return an array of one number, of another value's dtype."""
    dtype = edit.program.values[like].dtype
    value = edit.program.new_value(f"{edit.node}_full", shape, dtype)
    edit.add(Step(Full(shape=shape, dtype=dtype, value=number), edit.node, (), (value.id,)))
    return value.id
