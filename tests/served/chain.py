"""A graph with any number of nodes."""

from __future__ import annotations

import json

__all__ = ["chain"]


def chain(nodes: int) -> str:
    """Return a symbol of this many nodes in a row."""
    made = [{"op": "null", "name": "data", "inputs": []}]
    for place in range(1, nodes):
        operator = "tanh" if place % 2 else "relu"
        made.append({"op": operator, "name": f"n{place}", "inputs": [[place - 1, 0, 0]]})
    return json.dumps({"nodes": made, "arg_nodes": [0], "heads": [[nodes - 1, 0, 0]]})
