"""Gamma arrays of batch norms with ``fix_gamma``, which compute with gamma = 1."""

from __future__ import annotations

from .trace import Graph

__all__ = ["fixed_scales"]

_GAMMA = 1
"""The position of gamma among a batch norm's inputs."""


def fixed_scales(graph: Graph) -> tuple[int, ...]:
    """Return the positions of the arguments that are gamma of a batch norm with ``fix_gamma``.

    MXNet's batch norm writes 1 into that array, so that checkpoints contain 1.
    """
    gammas = {
        node.inputs[_GAMMA].node
        for node in graph.nodes
        if node.op is not None and getattr(node.op, "fix_gamma", False)
    }
    return tuple(index for index, node in enumerate(graph.arguments) if node in gammas)
