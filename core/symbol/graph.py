"""The graph under a symbol: nodes and their connections, nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from core.ops import Operator

__all__ = ["Entry", "Node", "topological_order"]


class Node:
    """One operator application, or a variable when ``op`` is None.

    Attributes:
        op: parsed operator, None for a variable.
        name: the node's name, as in the JSON.
        attrs: attributes as strings, just as given (``__x__`` ones included).
        inputs: where each input comes from, auxiliary states last.
    """

    __slots__ = ("attrs", "inputs", "name", "op")

    def __init__(
        self,
        op: Operator | None,
        name: str,
        attrs: dict[str, str] | None = None,
        inputs: list[Entry] | None = None,
    ) -> None:
        self.op = op
        self.name = name
        self.attrs = attrs or {}
        self.inputs = inputs or []

    @property
    def is_variable(self) -> bool:
        """True for arguments and auxiliary states."""
        return self.op is None

    def output_count(self) -> int:
        """Number of outputs, hidden ones included."""
        return 1 if self.op is None else len(self.op.output_names())

    def visible_outputs(self) -> int:
        """Number of outputs a symbol shows."""
        return 1 if self.op is None else self.op.visible_outputs()

    def output_name(self, index: int) -> str:
        """Name of one output as ``list_outputs`` shows it."""
        if self.op is None:
            return self.name
        return f"{self.name}_{self.op.output_names()[index]}"

    def __repr__(self) -> str:
        kind = "variable" if self.op is None else self.op.names[0]
        return f"<{kind} {self.name!r}>"


class Entry(NamedTuple):
    """One output of one node."""

    node: Node
    output: int


def topological_order(heads: Iterable[Entry]) -> list[Node]:
    """Return all nodes the heads depend on, inputs first, in MXNet's depth-first order."""
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
