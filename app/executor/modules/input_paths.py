"""How an input reaches the first operator that tells its shape, and the way back.

What that operator tells is the shape of its own data; each step before it is undone: a
transposition is turned back, a part of a split becomes the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.capabilities.arrays import EXPAND_DIMS, SLICING, SPLIT, TRANSPOSE
from core.capabilities.kinds import is_of
from core.errors import ShapeError
from core.graph.nodes import Entry, Node, topological_order
from core.ops import Operator
from core.symbol import Symbol
from core.types import Shape

__all__ = ["BATCH", "InputPath", "find_paths"]

BATCH = -1
"""Stands for the axis of the examples in a shape."""

_LONG = 1 << 30
"""Longer than any axis, to see which part of it an operator takes."""


@dataclass(frozen=True, slots=True)
class InputPath:
    """The steps from an input to the first operator that does more than pass it on.

    Attributes:
        reader: that operator.
        steps: the operators before it, from the input on.
        slices: other operators that take parts of the same data, by step.
    """

    reader: Node
    steps: tuple[Node, ...]
    slices: tuple[tuple[Node, ...], ...]

    def back(self, shape: Shape) -> Shape | None:
        """Return the input's shape for a shape of the reader's data; None if there is none."""
        found: Shape | None = shape
        for node, others in zip(reversed(self.steps), reversed(self.slices), strict=True):
            if found is None:
                return None
            found = _undone(node, others, found)
        return found


def find_paths(symbol: Symbol) -> dict[str, InputPath]:
    """Return the paths of all variables that an operator reads as its first input."""
    nodes = topological_order(symbol.heads)
    origin: dict[Node, tuple[str, tuple[Node, ...]]] = {}
    readers: dict[str, tuple[Node, tuple[Node, ...]]] = {}
    for node in nodes:
        if node.op is None:
            origin[node] = (node.name, ())
            continue
        source = origin.get(node.inputs[0].node) if node.inputs else None
        if source is None:
            continue
        name, steps = source
        if _can_be_undone(node.op):
            origin[node] = (name, (*steps, node))
        else:
            readers.setdefault(name, (node, steps))
    return {
        name: InputPath(reader, steps, tuple(_slices_beside(nodes, step) for step in steps))
        for name, (reader, steps) in readers.items()
    }


def _can_be_undone(operator: Operator) -> bool:
    return (
        operator.keeps_features()
        or is_of(operator, TRANSPOSE)
        or is_of(operator, SPLIT)
        or is_of(operator, SLICING)
        or is_of(operator, EXPAND_DIMS)
    )


def _slices_beside(nodes: Sequence[Node], step: Node) -> tuple[Node, ...]:
    if step.op is None or not is_of(step.op, SLICING):
        return ()
    entry: Entry = step.inputs[0]
    return tuple(
        node
        for node in nodes
        if node.op is not None and is_of(node.op, SLICING) and node.inputs[0] == entry
    )


def _undone(node: Node, others: Sequence[Node], shape: Shape) -> Shape | None:
    """Return the shape of an operator's data for that of its output."""
    assert node.op is not None
    operator = node.op
    try:
        if is_of(operator, TRANSPOSE):
            order = operator.permutation(len(shape))
            return tuple(shape[order.index(axis)] for axis in range(len(shape)))
        if is_of(operator, SPLIT):
            parts = len(node.op.output_names())
            return _whole(shape, operator.axis, parts, is_dropped=operator.squeeze_axis)
        if is_of(operator, SLICING):
            return _before_slicing(node, others, shape)
        if is_of(operator, EXPAND_DIMS):
            axis = operator.axis % len(shape)
            return (*shape[:axis], *shape[axis + 1 :]) if shape[axis] == 1 else None
    except (ShapeError, ValueError, IndexError):  # it is for data of another rank
        return None
    return shape


def _whole(shape: Shape, axis: int, parts: int, *, is_dropped: bool) -> Shape | None:
    """Return the shape of what was split into parts along an axis."""
    rank = len(shape) + is_dropped
    if not -rank <= axis < rank:
        return None
    axis %= rank
    if is_dropped:
        return (*shape[:axis], parts, *shape[axis:])
    if shape[axis] == BATCH:
        return None
    return (*shape[:axis], shape[axis] * parts, *shape[axis + 1 :])


def _before_slicing(node: Node, others: Sequence[Node], shape: Shape) -> Shape | None:
    """Return a shape of the data that is just long enough for all parts that are taken of it."""
    taken = _regions(node, shape)
    needed = list(shape)
    for axis, part in enumerate(taken):
        if (part.start, part.stop) == (0, _LONG):
            continue
        if shape[axis] == BATCH or part.stop - part.start != shape[axis]:
            return None
        stops = [_regions(other, shape)[axis].stop for other in others]
        needed[axis] = max((stop for stop in stops if stop < _LONG), default=part.stop)
    return tuple(needed)


def _regions(node: Node, output: Shape) -> list[slice]:
    """Return which part of long axes an operator takes."""
    assert node.op is not None
    assert is_of(node.op, SLICING)
    regions = node.op.region((_LONG,) * len(output), output)
    return [slice(one.start or 0, _LONG if one.stop is None else one.stop) for one in regions]
