"""Scales that are fixed: gamma of batch norms with ``fix_gamma``, which compute with gamma = 1."""

from __future__ import annotations

from .trace import Graph

__all__ = ["fixed_scales"]


def fixed_scales(graph: Graph) -> tuple[int, ...]:
    """Return the positions of the arguments that operators set to 1 (``Operator.set_to_one``)."""
    scales = {
        node.inputs[index].node
        for node in graph.nodes
        if node.op is not None
        for index in node.op.set_to_one()
    }
    return tuple(index for index, node in enumerate(graph.arguments) if node in scales)
