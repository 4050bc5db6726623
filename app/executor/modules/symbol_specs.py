"""Shapes and dtypes of a symbol's variables and outputs, and the memory that binding takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from core.graph.infer import infer_graph
from core.graph.nodes import Entry
from core.symbol import Symbol
from core.types import DType, Shape, is_known, shape_size

__all__ = ["Spec", "SymbolSpecs", "infer_specs", "unknown_variables"]

Spec = tuple[Shape, DType]


@dataclass(frozen=True, slots=True)
class SymbolSpecs:
    """Shapes and dtypes inferred from those of the inputs.

    Attributes:
        variables: of arguments and auxiliary states, by name.
        outputs: in the symbol's order.
        values_bytes: total size of all values that operators compute.
        largest_bytes: size of the largest of these values.
    """

    variables: dict[str, Spec]
    outputs: list[Spec]
    values_bytes: int
    largest_bytes: int

    def bind_bytes(self, for_training: bool) -> int:
        """Return an estimate of the memory that binding takes, including gradients.

        Training keeps nearly all values, with a gradient for each; inference keeps two or three at
        a time.
        """
        variables = sum(_nbytes(spec) for spec in self.variables.values())
        if for_training:
            return 2 * variables + 2 * self.values_bytes
        return variables + min(3 * self.largest_bytes, self.values_bytes)


def infer_specs(
    symbol: Symbol, shapes: Mapping[str, Shape], dtypes: Mapping[str, DType]
) -> SymbolSpecs:
    """Infer all shapes and dtypes from those of the inputs.

    Raises:
        ShapeError, TypeInferenceError: they contradict the graph or do not determine it.
    """
    specs = infer_graph(symbol.heads, shapes, dtypes)

    def spec_of(entry: Entry) -> Spec:
        shape, dtype = specs.shape(entry), specs.dtype(entry)
        assert shape is not None
        assert dtype is not None
        return shape, dtype

    sizes = [
        _nbytes(spec_of(Entry(node, output)))
        for node in specs.nodes
        if not node.is_variable
        for output in range(node.output_count())
    ]
    return SymbolSpecs(
        variables={node.name: spec_of(Entry(node, 0)) for node in specs.nodes if node.is_variable},
        outputs=[spec_of(head) for head in symbol.heads],
        values_bytes=sum(sizes),
        largest_bytes=max(sizes, default=0),
    )


def unknown_variables(
    symbol: Symbol, shapes: Mapping[str, Shape], dtypes: Mapping[str, DType]
) -> set[str]:
    """Return the names of the variables whose shapes do not follow from those of the inputs."""
    specs = infer_graph(symbol.heads, shapes, dtypes, partial=True)
    return {
        node.name
        for node in specs.nodes
        if node.is_variable and not is_known(specs.shape(Entry(node, 0)))
    }


def _nbytes(spec: Spec) -> int:
    shape, dtype = spec
    return shape_size(shape) * dtype.itemsize
