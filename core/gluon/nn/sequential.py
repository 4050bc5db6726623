"""Sequences of blocks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from ..base_block import Block
from ..hybrid_block import HybridBlock

__all__ = ["HybridSequential", "Sequential"]


class _Chain(Block):
    """Base of both classes; children are numbered."""

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
    """A sequence of blocks."""

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Compile each child; warn if ``HybridSequential`` could compile them as a whole."""
        if len(self) and all(isinstance(child, HybridBlock) for child in self):
            warnings.warn(
                f"All children of this Sequential layer '{self.prefix}' are HybridBlocks. Consider "
                "using HybridSequential for the best performance.",
                stacklevel=2,
            )
        super().hybridize(active, **kwargs)

    def forward(self, *args: Any) -> Any:
        """Run the blocks in order."""
        for block in self:
            found = block(*args)
            args = tuple(found) if isinstance(found, (list, tuple)) else (found,)
        return args[0] if len(args) == 1 else list(args)


class HybridSequential(_Chain, HybridBlock):
    """A sequence of blocks that can be compiled as a whole."""

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the blocks in order."""
        values = (x, *args)
        for block in self:
            found = block(*values)
            values = tuple(found) if isinstance(found, (list, tuple)) else (found,)
        return values[0] if len(values) == 1 else list(values)
