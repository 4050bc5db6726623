"""The graph under a symbol: nodes and their connections, nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..ops import Operator

__all__ = [
    "Entry",
    "Node",
    "auxiliary_variables",
    "copy_graph",
    "joined_name",
    "topological_order",
]


class Node:
    """One operator application, or a variable when ``op`` is None.

    Attributes:
        op: parsed operator, None for a variable.
        name: the node's name, as in the JSON.
        attrs: attributes as strings, just as given (``__x__`` ones included).
        inputs: where each input comes from, auxiliary states last.
        versions: how many operators composed before and including this one update the variable at
            each input. Only MXNet's JSON has a use for it.
        updates: how many operators composed so far update this variable.
    """

    __slots__ = ("_outputs", "attrs", "inputs", "name", "op", "updates", "versions")

    def __init__(
        self,
        op: Operator | None,
        name: str,
        attrs: dict[str, str] | None = None,
        inputs: list[Entry] | None = None,
        versions: list[int] | None = None,
    ) -> None:
        self.op = op
        self.name = name
        self.attrs = attrs or {}
        self.inputs = inputs or []
        self.versions = versions or [0] * len(self.inputs)
        self.updates = 0
        self._outputs: tuple[Operator | None, tuple[str, ...]] = (None, ("output",))

    @property
    def is_variable(self) -> bool:
        """True for arguments and auxiliary states."""
        return self.op is None

    def output_parts(self) -> tuple[str, ...]:
        """Return what the operator calls its outputs, hidden ones included."""
        # Cached with the operator, which ``set_attributes`` may replace.
        if self._outputs[0] is not self.op and self.op is not None:
            self._outputs = (self.op, self.op.output_names())
        return self._outputs[1]

    def output_count(self) -> int:
        """Number of outputs, hidden ones included."""
        return 1 if self.op is None else len(self.output_parts())

    def visible_outputs(self) -> int:
        """Number of outputs a symbol shows."""
        return 1 if self.op is None else self.op.visible_outputs()

    def output_name(self, index: int) -> str:
        """Name of one output as ``list_outputs`` shows it."""
        if self.op is None:
            return self.name
        return joined_name(self.name, self.output_parts()[index])

    def __repr__(self) -> str:
        kind = "variable" if self.op is None else self.op.names[0]
        return f"<{kind} {self.name!r}>"


class Entry(NamedTuple):
    """One output of one node."""

    node: Node
    output: int


def joined_name(node: str, part: str) -> str:
    """Return the name of an output, or of a variable made for an input, of a node."""
    return f"{node}_{part}" if node else part


def topological_order(heads: Iterable[Entry]) -> list[Node]:
    """Return all nodes the heads depend on, inputs first, in MXNet's depth-first order.

    That order is visible: in ``list_arguments``, in files, and in the positions of bound arrays.
    """
    # A stack of its own, because unrolled graphs are deeper than Python's recursion may be.
    order: list[Node] = []
    seen: set[int] = set()
    stack: list[tuple[Node, int]] = []
    for head in heads:
        if id(head.node) in seen:
            continue
        seen.add(id(head.node))
        stack.append((head.node, 0))
        while stack:
            node, position = stack.pop()
            if position == len(node.inputs):
                order.append(node)
                continue
            stack.append((node, position + 1))
            child = node.inputs[position].node
            if id(child) not in seen:
                seen.add(id(child))
                stack.append((child, 0))
    return order


def auxiliary_variables(nodes: Iterable[Node]) -> set[Node]:
    """Return the variables that operators among the nodes update (moving averages)."""
    found: set[Node] = set()
    for node in nodes:
        updated = () if node.op is None else node.op.auxiliary_names()
        if node.op is not None and updated:
            inputs = zip(node.op.input_names(), node.inputs, strict=True)
            found.update(entry.node for name, entry in inputs if name in updated)
    return found


def copy_graph(heads: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return the same heads over nodes of their own; parsed operators, being frozen, are shared."""
    heads = tuple(heads)
    copies: dict[Node, Node] = {}
    for node in topological_order(heads):
        inputs = [Entry(copies[source], output) for source, output in node.inputs]
        copy = Node(node.op, node.name, dict(node.attrs), inputs, list(node.versions))
        copy.updates = node.updates
        copies[node] = copy
    return tuple(Entry(copies[node], output) for node, output in heads)
