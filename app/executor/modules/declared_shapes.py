"""What a symbol's file says about the shapes of its inputs, and about the batch."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping

from core.capabilities.arrays import RESHAPING
from core.capabilities.kinds import is_of
from core.graph.nodes import topological_order
from core.symbol import Symbol
from core.types import Shape

__all__ = ["declared_shapes", "fixed_batches"]

_MOST_BATCHES = 3


def declared_shapes(symbol: Symbol, names: Collection[str]) -> dict[str, Shape]:
    """Return the shapes that variables declare (``__shape__``), if all but the batch is known.

    Scripts declare them by ``mx.sym.Variable("data", shape=(0, 28, 28, 1))``; so does Keras-MXNet.
    """
    found = {}
    for node in topological_order(symbol.heads):
        text = node.attrs.get("__shape__") if node.is_variable and node.name in names else None
        shape = None if text is None else _parsed(text)
        if shape is not None and len(shape) > 0 and min(shape[1:], default=1) > 0:
            found[node.name] = shape
    return found


def fixed_batches(symbol: Symbol, declared: Mapping[str, Shape]) -> list[int]:
    """Return batch sizes that a graph may depend on: those of shapes in it without an open axis."""
    found = [shape[0] for shape in declared.values()]
    for node in topological_order(symbol.heads):
        if node.op is not None and is_of(node.op, RESHAPING):
            target = node.op.shape
            found += [target[0]] if target and min(target) > 0 else []
    return list(dict.fromkeys(size for size in found if size > 1))[:_MOST_BATCHES]


def _parsed(text: str) -> Shape | None:
    try:
        shape = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None
    is_shape = isinstance(shape, tuple | list) and all(type(dim) is int for dim in shape)
    return tuple(shape) if is_shape else None
