"""An executor's output arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..compiler.memory import aligned
from ..compiler.trace import Graph, SpecOf
from ..device import Context
from ..graph.nodes import Entry, Node
from ..ndarray import NDArray
from ..types import shape_size
from .arena import Arena

__all__ = ["Outputs", "output_contexts"]


class Outputs:
    """Outputs in the memory that all executors of an arena share.

    Args:
        graph: its heads are the outputs.
        spec_of: inferred shapes and dtypes.
        arena: grows to hold them.
        contexts: the context that each output reports.
        variables: arrays of the graph's variables; an output that is a variable is that array.

    Attributes:
        nbytes: bytes of the arena that they take.
    """

    def __init__(
        self,
        graph: Graph,
        spec_of: SpecOf,
        arena: Arena,
        contexts: Sequence[Context],
        variables: Mapping[Entry, NDArray],
    ) -> None:
        self._heads = graph.heads
        self._specs = [spec_of(head) for head in graph.heads]
        self._arena = arena
        self._contexts = contexts
        self._variables = variables
        self._sizes = [aligned(shape_size(shape) * kind.itemsize) for shape, kind in self._specs]
        self.nbytes = sum(self._sizes)
        arena.reserve(values=0, outputs=self.nbytes)
        self._make()

    def views(self) -> list[NDArray]:
        """Return the outputs in order; they are made again whenever the arena has moved."""
        if self._moves != self._arena.outputs.moves:
            self._make()
        return self._arrays

    def _make(self) -> None:
        made = dict(self._variables)
        offset = 0
        layout = zip(self._heads, self._specs, self._sizes, self._contexts, strict=True)
        for head, (shape, dtype), size, context in layout:
            # Equal heads are one array, of the first one's place (``trace``).
            if head not in made:
                raw = self._arena.outputs.array(offset, shape, dtype)
                made[head] = NDArray(raw, context)
            offset += size
        self._arrays = [made[head] for head in self._heads]
        self._moves = self._arena.outputs.moves


def output_contexts(
    graph: Graph, default: Context, group2ctx: Mapping[str, Context]
) -> list[Context]:
    """Return the context that each output reports: that of its operator's ``ctx_group``, or the one
    of the first input that has one."""
    found: dict[Node, Context] = {}
    for node in graph.nodes:
        group = node.attrs.get("__ctx_group__", "")
        if group in group2ctx:
            found[node] = group2ctx[group]
            continue
        placed = [found[entry.node] for entry in node.inputs if entry.node in found]
        if placed:
            found[node] = placed[0]
    return [found.get(node, default) for node, _ in graph.heads]
