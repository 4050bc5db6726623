"""Blocks one after the other."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from ..base_block import Block
from ..hybrid_block import HybridBlock

__all__ = ["HybridSequential", "Sequential"]


class _Chain(Block):
    """What both chains share; children are numbered."""

    _is_chain = True

    def add(self, *blocks: Block) -> None:
        """Append blocks."""
        for block in blocks:
            self.register_child(block)

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[Block]:
        return iter(self._children.values())

    def __getitem__(self, key: Any) -> Any:
        chosen = list(self._children.values())[key]
        if not isinstance(chosen, list):
            return chosen
        part = type(self)(prefix=self._prefix)
        part.add(*chosen)
        return part


class Sequential(_Chain):
    """Blocks one after the other."""

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Compile the children one by one; where all of them can be, warn that a chain could."""
        if len(self) and all(isinstance(child, HybridBlock) for child in self):
            warnings.warn(
                f"All children of this Sequential layer '{self.prefix}' are HybridBlocks. Consider "
                "using HybridSequential for the best performance.",
                stacklevel=2,
            )
        super().hybridize(active, **kwargs)

    def forward(self, *args: Any) -> Any:
        """Run block after block."""
        for block in self:
            found = block(*args)
            args = tuple(found) if isinstance(found, (list, tuple)) else (found,)
        return args[0] if len(args) == 1 else list(args)


class HybridSequential(_Chain, HybridBlock):
    """Blocks one after the other, which can be compiled together."""

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Run block after block."""
        values = (x, *args)
        for block in self:
            found = block(*values)
            values = tuple(found) if isinstance(found, (list, tuple)) else (found,)
        return values[0] if len(values) == 1 else list(values)
