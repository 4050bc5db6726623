"""A helper under MXNet's import path (``mxnet.symbol_doc``)."""

from __future__ import annotations

from ..symbol import Symbol
from ..types import Shape

__all__ = ["SymbolDoc"]


class SymbolDoc:
    """Describes symbols."""

    @staticmethod
    def get_output_shape(sym: Symbol, **input_shapes: Shape) -> dict[str, Shape]:
        """Return the shapes of a symbol's outputs by name, given those of its inputs."""
        _, outputs, _ = sym.infer_shape(**input_shapes)
        return dict(zip(sym.list_outputs(), outputs or (), strict=True))
