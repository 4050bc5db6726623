"""Transformations made of others."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from ...hybrid_block import HybridBlock
from ...nn import HybridSequential, Sequential

__all__ = ["Compose", "RandomApply"]


class Compose(Sequential):
    """Transformations one after the other.

    Neighbors that are hybrid blocks become one ``HybridSequential``, as in MXNet. It is not
    compiled: a plan would be made for every size of image, and transformations gain nothing by it.

    Args:
        transforms: blocks; the list is left as it is.
    """

    def __init__(self, transforms: Sequence[Any]) -> None:
        super().__init__()
        neighbors: list[HybridBlock] = []
        for one in transforms:
            if isinstance(one, HybridBlock):
                neighbors.append(one)
                continue
            self._add_chain(neighbors)
            neighbors = []
            self.add(one)
        self._add_chain(neighbors)

    def _add_chain(self, blocks: list[HybridBlock]) -> None:
        if len(blocks) > 1:
            chain = HybridSequential()
            chain.add(*blocks)
            self.add(chain)
        elif blocks:
            self.add(blocks[0])


class RandomApply(Sequential):
    """A transformation that is made or left out by chance, which Python's ``random`` decides.

    Args:
        transforms: the transformation, a block or function; a list of them is a chain.
        p: probability of making it.
    """

    def __init__(
        self, transforms: Callable[[Any], Any] | Sequence[Callable[[Any], Any]], p: float = 0.5
    ) -> None:
        super().__init__()
        self.transforms = transforms
        self.p = p
        self._chain = [transforms] if callable(transforms) else list(transforms)

    def forward(self, x: Any) -> Any:
        """Return the image, transformed or not."""
        if self.p < random.random():
            return x
        for transform in self._chain:
            x = transform(x)
        return x
