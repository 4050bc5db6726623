"""The limit on nodes in a client's graph, checked before the graph is built."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from app.errors.tree import Invalid

__all__ = ["check_symbols", "count_nodes"]


def check_symbols(symbols: Mapping[str, str], most: int | None) -> None:
    """Refuse symbols that have too many nodes in total.

    Args:
        symbols: JSON texts by the name of their field in the request. Invalid JSON is skipped here,
            because building the graph reports it.
        most: the limit; None for no limit.
    """
    if most is None:
        return
    count = 0
    for field, text in symbols.items():
        count += count_nodes(text)
        if count > most:
            raise Invalid(
                field,
                f"{count:,} nodes",
                f"at most {most:,} in all symbols of a module",
                "make the graph smaller, or raise MODSERVE_MAX_GRAPH_NODES",
            )


def count_nodes(text: str) -> int:
    """Return the number of nodes of a symbol in JSON, those of its subgraphs included."""
    try:
        graphs = [json.loads(text)]
    except (ValueError, RecursionError):
        return 0
    count = 0
    while graphs:
        nodes = _list_of(graphs.pop(), "nodes")
        count += len(nodes)
        for node in nodes:
            graphs += _list_of(node, "subgraphs")
    return count


def _list_of(value: Any, member: str) -> list[Any]:
    found = value.get(member) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []
