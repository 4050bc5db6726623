"""Graphs inside operators: the bodies of loops and the branches of conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeVar

from ..errors import GraphError
from ..ndarray.np_shape import is_np_shape
from ..ops.subgraph import Application
from ..types import DType, Shape
from .infer import infer_dtypes, infer_shapes
from .nodes import Entry, Node, auxiliary_variables, topological_order

__all__ = ["DEEPEST", "Subgraph"]

DEEPEST = 10
"""The largest depth of nested subgraphs."""

T = TypeVar("T")
_Known = tuple[tuple[T | None, ...], tuple[T | None, ...], bool]

_MOST_REMEMBERED = 100
"""Entries in a cache of inference, which is then cleared."""


class Subgraph:
    """An immutable graph.

    Args:
        heads: outputs of the graph.
        versions: the third number of each head in JSON (see ``Node.versions``).

    Attributes:
        variables: its inputs, auxiliary states included, in the order of ``list_inputs``.
        depth: how many levels of subgraphs there are below this one.

    Raises:
        GraphError: there are no heads, two variables have the same name, or it is nested too deep.
    """

    def __init__(self, heads: Sequence[Entry], versions: Sequence[int]) -> None:
        if not heads:
            raise GraphError("a subgraph has no outputs; expected at least one")
        self.heads = tuple(heads)
        self.versions = tuple(versions)
        self._nodes = topological_order(heads)
        self.variables = tuple(node for node in self._nodes if node.is_variable)
        repeated = [name for name, count in Counter(self.input_names).items() if count > 1]
        if repeated:
            raise GraphError(
                "the inputs of the subgraph don't have unique names: "
                f"{', '.join(repr(name[:80]) for name in repeated[:10])}"
            )
        self.depth = max(map(_depth, self._nodes))
        if self.depth >= DEEPEST:
            raise GraphError(
                f"loops and branches are nested {self.depth + 1} deep; expected at most {DEEPEST}"
            )
        self._shapes: dict[_Known[Shape], tuple[list[Shape | None], list[Shape | None]]] = {}
        self._dtypes: dict[_Known[DType], tuple[list[DType | None], list[DType | None]]] = {}

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        """Names of the variables."""
        return tuple(node.name for node in self.variables)

    @property
    def output_count(self) -> int:
        """Number of outputs."""
        return len(self.heads)

    @cached_property
    def applications(self) -> tuple[Application, ...]:
        """Its operators, each after those it reads from."""
        operators = [node for node in self._nodes if not node.is_variable]
        numbers = {node: number for number, node in enumerate((*self.variables, *operators))}
        return tuple(
            Application(node.op, tuple((numbers[source], out) for source, out in node.inputs))
            for node in operators
        )

    @cached_property
    def updated(self) -> tuple[str, ...]:
        """Names of the variables that its operators update."""
        found = auxiliary_variables(self._nodes)
        return tuple(node.name for node in self.variables if node in found)

    @cached_property
    def updated_inputs(self) -> tuple[int, ...]:
        """Indices of the variables that its operators update in ``forward``."""
        found = {
            node.inputs[index].node
            for node in self._nodes
            if node.op is not None
            for index in node.op.updated_inputs()
        }
        return tuple(index for index, node in enumerate(self.variables) if node in found)

    @cached_property
    def uses_random(self) -> bool:
        """True if an operator in it, or in a subgraph of one, draws random numbers."""
        return any(_uses_random(node) for node in self._nodes)

    def infer_shapes(
        self, inputs: Sequence[Shape | None], outputs: Sequence[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        """Complete what is known of the shapes of inputs and outputs.

        Raises:
            ShapeError: they contradict each other; names the node.
        """
        return self._infer(
            self._shapes,
            inputs,
            outputs,
            lambda known, entries: infer_shapes(self._nodes, known, entries),
        )

    def infer_dtypes(
        self, inputs: Sequence[DType | None], outputs: Sequence[DType | None]
    ) -> tuple[list[DType | None], list[DType | None]]:
        """Complete what is known of the dtypes of inputs and outputs.

        Raises:
            TypeInferenceError: they contradict each other; names the node.
        """
        return self._infer(
            self._dtypes,
            inputs,
            outputs,
            lambda known, entries: infer_dtypes(self._nodes, known, entries=entries),
        )

    def _infer(
        self,
        remembered: dict[_Known[T], tuple[list[T | None], list[T | None]]],
        inputs: Sequence[T | None],
        outputs: Sequence[T | None],
        infer: Callable[[dict[str, T], list[tuple[Entry, T | None]]], dict[Node, list[T | None]]],
    ) -> tuple[list[T | None], list[T | None]]:
        # Inference around a graph asks the same question repeatedly; without this cache, nested
        # graphs would take exponential time.
        key = tuple(inputs), tuple(outputs), is_np_shape()
        found = remembered.get(key)
        if found is None:
            if len(remembered) >= _MOST_REMEMBERED:
                remembered.clear()
            known = {
                name: value
                for name, value in zip(self.input_names, inputs, strict=True)
                if value is not None
            }
            values = infer(known, list(zip(self.heads, outputs, strict=True)))
            found = remembered[key] = (
                [values[node][0] for node in self.variables],
                [values[node][output] for node, output in self.heads],
            )
        return list(found[0]), list(found[1])


def _uses_random(node: Node) -> bool:
    if node.op is None:
        return False
    graphs = node.op.nested_graphs()
    return any(graph.uses_random for graph in graphs) if graphs else node.op.uses_random


def _depth(node: Node) -> int:
    graphs = () if node.op is None else node.op.nested_graphs()
    return max((1 + graph.depth for graph in graphs), default=0)
