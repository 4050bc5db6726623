"""A helper that scripts import from ``mxnet.symbol_doc``."""

from __future__ import annotations

from ..symbol import Symbol
from ..types import Shape

__all__ = ["SymbolDoc"]


class SymbolDoc:
    """Says what a symbol computes."""

    @staticmethod
    def get_output_shape(sym: Symbol, **input_shapes: Shape) -> dict[str, Shape]:
        """Return the shapes of a symbol's outputs by name, from those of its inputs."""
        _, outputs, _ = sym.infer_shape(**input_shapes)
        return dict(zip(sym.list_outputs(), outputs or (), strict=True))
