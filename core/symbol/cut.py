"""Cut the graph of a loop's body out of the graph around it."""

from __future__ import annotations

import dataclasses

from ..graph.nodes import Entry, Node, copy_graph, topological_order
from .symbol import Symbol

__all__ = ["Cut", "cut_graph"]

_MARK = "__subgraph_name__"


@dataclasses.dataclass(frozen=True)
class Cut:
    """A graph of its own, and what it read outside.

    Attributes:
        symbol: the graph; a variable stands for each output that was cut.
        sources: by name of the variable, what it stands for.
    """

    symbol: Symbol
    sources: dict[str, Entry]

    @property
    def names(self) -> list[str]:
        """Names of all variables of the graph, those of its own included."""
        return self.symbol.list_inputs()

    def source(self, name: str) -> Symbol:
        """Return what is to be the value of a variable: for one of its own, a copy of it."""
        found = self.sources.get(name)
        if found is None:
            nodes = topological_order(self.symbol._heads)
            (own,) = (node for node in nodes if node.is_variable and node.name == name)
            found = copy_graph([Entry(own, 0)])[0]
        return Symbol([found], [found.node.updates if found.node.is_variable else 0])


def cut_graph(symbol: Symbol, name: str) -> Cut:
    """Return the nodes marked with a name as a graph of their own.

    The symbol stays as it is: nodes are copied. What they read of others becomes a variable, named
    as the output it stands for.
    """
    copies: dict[Node, Node] = {}
    variables: dict[Entry, Node] = {}
    for node in topological_order(symbol._heads):
        if node.attrs.get(_MARK) != name:
            continue
        copy = Node(node.op, node.name, dict(node.attrs), versions=list(node.versions))
        copy.updates = node.updates
        copy.inputs = [_inside(entry, copies, variables) for entry in node.inputs]
        copies[node] = copy
    heads = [Entry(copies[node], output) for node, output in symbol._heads]
    sources = {variable.name: entry for entry, variable in variables.items()}
    return Cut(Symbol(heads, symbol._versions), sources)


def _inside(entry: Entry, copies: dict[Node, Node], variables: dict[Entry, Node]) -> Entry:
    if entry.node in copies:
        return Entry(copies[entry.node], entry.output)
    if entry not in variables:
        variables[entry] = Node(None, entry.node.output_name(entry.output))
    return Entry(variables[entry], 0)
