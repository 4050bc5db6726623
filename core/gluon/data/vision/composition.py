"""Compositions of transformations."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from ...hybrid_block import HybridBlock
from ...nn import HybridSequential, Sequential

__all__ = ["Compose", "RandomApply"]


class Compose(Sequential):
    """A sequence of transformations.

    As in MXNet, consecutive hybrid blocks are joined to a ``HybridSequential``. It is not compiled,
    because each image size would need a separate plan and transformations gain nothing from it.

    Args:
        transforms: blocks; the list is not changed.
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
    """Applies a transformation with a probability, by Python's ``random``.

    Args:
        transforms: the transformation, a block or function, or a list of them to apply in order.
        p: the probability.
    """

    def __init__(
        self, transforms: Callable[[Any], Any] | Sequence[Callable[[Any], Any]], p: float = 0.5
    ) -> None:
        super().__init__()
        self.transforms = transforms
        self.p = p
        self._chain = [transforms] if callable(transforms) else list(transforms)

    def forward(self, x: Any) -> Any:
        """Return the image, possibly transformed."""
        if self.p < random.random():
            return x
        for transform in self._chain:
            x = transform(x)
        return x
