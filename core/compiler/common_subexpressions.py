"""Common-subexpression elimination: equal nodes of a graph are computed once."""

from __future__ import annotations

from collections.abc import Hashable, Set

from ..config import eliminates_common_subexpressions
from ..graph.nodes import Entry, Node
from ..types import DType, Shape
from .trace import Graph, SpecOf

__all__ = ["eliminate_common_subexpressions"]


def eliminate_common_subexpressions(graph: Graph, spec_of: SpecOf) -> tuple[Graph, SpecOf]:
    """Return a graph without nodes that duplicate others, as MXNet's executors do.

    Of nodes with the same operator, attributes and inputs one remains; variables and outputs of
    the graph are kept. The graph is returned as it is if ``MXNET_ELIMINATE_COMMON_EXPR`` is 0.

    Args:
        graph: the graph; it is not changed.
        spec_of: its inferred shapes and dtypes.
    """
    if not eliminates_common_subexpressions():
        return graph, spec_of
    heads = {node for node, _ in graph.heads}
    stands_for = _representatives(graph, spec_of, heads)
    if all(node in heads for node in stands_for):
        return graph, spec_of
    made: dict[Node, Node] = {}
    originals: dict[Node, Node] = {}
    for node in graph.nodes:
        # A representative that is an output of the graph may come after the node it stands for. It
        # is made in the place of that node, because nodes in between may read it.
        for kept in (stands_for.get(node, node), node):
            if kept in made or (kept in stands_for and kept not in heads):
                continue
            inputs = [Entry(made[stands_for.get(source, source)], at) for source, at in kept.inputs]
            made[kept] = kept
            if inputs != kept.inputs:
                made[kept] = Node(kept.op, kept.name, kept.attrs, inputs, kept.versions)
                originals[made[kept]] = kept

    def spec_of_original(entry: Entry) -> tuple[Shape, DType]:
        return spec_of(Entry(originals.get(entry.node, entry.node), entry.output))

    return Graph.of([Entry(made[node], output) for node, output in graph.heads]), spec_of_original


def _representatives(graph: Graph, spec_of: SpecOf, heads: Set[Node]) -> dict[Node, Node]:
    """Map each duplicate node to its representative.

    That is the first of the equal nodes that is an output of the graph, or else the first of all.
    """
    known: dict[Hashable, list[Node]] = {}
    first_of: dict[Node, Node] = {}
    chosen: dict[Node, Node] = {}
    # One pass finds duplicates of any depth, because inputs are compared after being replaced.
    for node in graph.nodes:
        inputs = [(first_of.get(source, source), output) for source, output in node.inputs]
        # As in MXNet, operators without inputs, such as ``zeros``, are never duplicates.
        alike = known.setdefault((type(node.op), *inputs), []) if inputs else []
        for first in alike:
            if _is_repeated(first, node, spec_of):
                first_of[node] = first
                if node in heads and first not in heads:
                    chosen.setdefault(first, node)
                break
        else:
            alike.append(node)
    classes = {node: first_of.get(node, node) for node in (*first_of, *chosen)}
    found = {node: chosen.get(first, first) for node, first in classes.items()}
    return {node: other for node, other in found.items() if node is not other}


def _is_repeated(first: Node, node: Node, spec_of: SpecOf) -> bool:
    """Return whether the second of two nodes with the same inputs duplicates the first.

    Losses are never duplicates: they ignore the incoming gradient, so that two of them contribute
    twice the gradient of one. Of all others the incoming gradients are summed, to the same effect.
    """
    op = node.op
    # Several outputs: MXNet never merges SliceChannel, the most frequent such operator, which is a
    # stateful one there.
    if op is None or node.attrs != first.attrs or node.visible_outputs() > 1:
        return False
    if op.uses_random or op.auxiliary_names() or op.nested_graphs():
        return False
    if op.has_backward() and not op.backward_reads().out_grads:
        return False
    return all(
        spec_of(Entry(first, index)) == spec_of(Entry(node, index))
        for index in range(node.output_count())
    )
