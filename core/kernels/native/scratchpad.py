"""Division of a kernel's temporary memory among its uses."""

from __future__ import annotations

import math

import numpy as np

from ...types import Array, Shape
from ..kernel import KernelResources
from ..onednn.kernel import present

__all__ = ["Scratchpad", "aligned", "nbytes_of"]

_FLOAT32 = np.dtype("float32")
_LINE = 64


class Scratchpad:
    """Hands out ``KernelResources.scratchpad`` piece by piece; each begins on a cache line."""

    def __init__(self, resources: KernelResources) -> None:
        self._left = present(resources.scratchpad)

    def take(self, nbytes: int) -> Array:
        """Return the next bytes."""
        taken, self._left = self._left[:nbytes], self._left[aligned(nbytes) :]
        return taken

    def numbers(self, shape: Shape) -> Array:
        """Return the next float32 numbers, in a shape."""
        return self.take(nbytes_of(shape)).view(_FLOAT32).reshape(shape)

    def rest(self) -> Array:
        """Return the remaining bytes."""
        return self._left


def nbytes_of(shape: Shape) -> int:
    """Return the size of float32 numbers in a shape."""
    return math.prod(shape) * _FLOAT32.itemsize


def aligned(nbytes: int) -> int:
    """Return the size rounded up to whole cache lines."""
    return -(-nbytes // _LINE) * _LINE
