"""A recorded computation as a symbol."""

from __future__ import annotations

from itertools import count

from ..errors import MXNetError
from ..graph.nodes import Entry, Node, topological_order
from ..ndarray import NDArray
from ..ndarray.execute import operator_of
from ..ndarray.nodes import CopyNode, IndexNode, OperatorNode
from ..ndarray.tape import NOT_RECORDED, Origin, live, nodes_behind
from ..ndarray.tape import Entry as TapeEntry
from ..ndarray.tape import Node as TapeNode
from ..ops import Operator
from ..ops.attributes import attribute_fields, format_attribute
from ..symbol import Symbol
from .function import FunctionNode

__all__ = ["symbol_of"]


def symbol_of(array: NDArray) -> Symbol:
    """Return the recorded computation of an array; MXNetError if a graph cannot represent it."""
    origin = live(array._origin)
    if origin is None:
        raise MXNetError(NOT_RECORDED)
    return Symbol([_Tracer().trace(origin)])


class _Tracer:
    def __init__(self) -> None:
        self._variables: dict[object, Node] = {}
        self._outputs: dict[TapeNode, list[Entry]] = {}
        self._numbers = count()

    def trace(self, head: Origin) -> Entry:
        for node in nodes_behind([head]):
            self._outputs[node] = self._translate(node)
        return self._entry(head, head)

    def _entry(self, origin: Origin | None, key: object) -> Entry:
        """Return the graph's entry of an origin; without an origin, the variable of ``key``."""
        if isinstance(origin, TapeEntry):
            return self._outputs[origin.node][origin.output]
        key = key if origin is None else origin
        if key not in self._variables:
            self._variables[key] = Node(None, f"var{len(self._variables)}")
        return Entry(self._variables[key], 0)

    def _translate(self, node: TapeNode) -> list[Entry]:
        """Return the graph's entries of a node's outputs."""
        if isinstance(node, FunctionNode) and node.function is not None:
            graph = node.function.recorded_graph()
            if graph is not None:
                return self._inline(node, graph)
        made = self._translate_operator(node)
        return [Entry(made, output) for output in range(node.output_count)]

    def _inline(self, node: TapeNode, graph: Symbol) -> list[Entry]:
        """Copy a graph, with the node's inputs as its arguments; return the heads of the copy."""
        names = {name: index for index, name in enumerate(graph.list_arguments())}
        copies: dict[Node, Node] = {}
        entries: dict[Entry, Entry] = {}
        for one in topological_order(graph._heads):
            if one.op is None:
                index = names.get(one.name)
                parent = None if index is None else node.parents[index]
                entries[Entry(one, 0)] = self._entry(parent, (node, one.name))
                continue
            inputs = [
                entries.get(entry) or Entry(copies[entry.node], entry.output)
                for entry in one.inputs
            ]
            copies[one] = Node(one.op, f"node_{next(self._numbers)}", dict(one.attrs), inputs)
        return [entries.get(head) or Entry(copies[head.node], head.output) for head in graph._heads]

    def _translate_operator(self, node: TapeNode) -> Node:
        inputs = [self._entry(parent, (node, index)) for index, parent in enumerate(node.parents)]
        if isinstance(node, OperatorNode):
            return self._apply(node.op, inputs)
        if isinstance(node, CopyNode):
            if node.target_dtype == node.source.dtype:
                return self._apply(operator_of("_copy", {}), inputs)
            return self._apply(operator_of("Cast", {"dtype": node.target_dtype.name}), inputs)
        if isinstance(node, IndexNode) and not node.is_advanced:
            part = self._apply(_slice(node), inputs)
            return self._apply(operator_of("Reshape", {"shape": node.shape}), [Entry(part, 0)])
        raise MXNetError(
            f"{type(node).__name__} cannot be part of a symbol; only operators, copies, compiled "
            "blocks and indexing by integers and slices can"
        )

    def _apply(self, op: Operator, inputs: list[Entry]) -> Node:
        return Node(op, f"node_{next(self._numbers)}", _texts(op), inputs)


def _slice(node: IndexNode) -> Operator:
    """Return the slicing operator of a basic index, without the axes that it adds or removes."""
    begins, ends, steps = [], [], []
    for part in node.key:
        if part is None:
            continue
        if not isinstance(part, slice):
            part = slice(part, part + 1 or None)  # of the last element, -1, the end is not 0
        begins.append(part.start)
        ends.append(part.stop)
        steps.append(part.step)
    begins += [None] * (node.source.ndim - len(begins))
    ends += [None] * (node.source.ndim - len(ends))
    steps += [None] * (node.source.ndim - len(steps))
    return operator_of("slice", {"begin": tuple(begins), "end": tuple(ends), "step": tuple(steps)})


def _texts(op: Operator) -> dict[str, str]:
    """Return the attributes that differ from their defaults, as strings, as graphs store them."""
    values = {
        name: (getattr(op, name), field) for name, field in attribute_fields(type(op)).items()
    }
    return {
        name: format_attribute(value)
        for name, (value, field) in values.items()
        if value != field.default
    }
