"""Sums over all positions of an image, for each channel of each sample, in any layout."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from core.backends.kernels import KernelResources
from core.backends.onednn.constants import Algorithm, Argument, Propagation
from core.backends.onednn.memory import MemoryDesc, any_layout
from core.backends.onednn.primitive import Primitive, launch, scratchpad_bytes
from core.types import Array, shape_size

__all__ = ["ChannelSums"]

_FLOAT32 = np.dtype("float32")
_BYTES = np.dtype("uint8")


class ChannelSums:
    """Adds up by pooling: oneDNN's reductions are generated for plain tensors only.

    Args:
        desc: of the tensor, which has three axes or more.

    Raises:
        KernelUnavailable: oneDNN cannot pool in this layout.
    """

    def __init__(self, desc: MemoryDesc) -> None:
        batch, channels, *space = desc.dims
        ones, zeros = (1,) * len(space), (0,) * len(space)
        self._count = np.float32(shape_size(tuple(space)))
        self._primitive = Primitive.of(
            "pooling_forward",
            Propagation.FORWARD_INFERENCE,
            Algorithm.POOLING_AVERAGE_EXCLUDE_PADDING,
            desc,
            any_layout((batch, channels, *ones)),
            ones,
            tuple(space),
            zeros,
            zeros,
            zeros,
        )
        self.scratchpad_bytes = scratchpad_bytes(self._primitive)

    def bind(self, tensor: Array, resources: KernelResources) -> Callable[[], Array]:
        """Return a closure that returns the sums, (batch, channels); it writes them anew at each
        call."""
        desc = self._primitive.desc(Argument.DST)
        means = resources.allocate((desc.nbytes,), _BYTES)
        tensors = {Argument.SRC: tensor, Argument.DST: means}
        pool, count = launch(self._primitive, tensors, resources), self._count
        batch, channels = desc.dims[:2]
        # One pixel: its channels lie side by side in every layout, with padding behind.
        sums = means.view(_FLOAT32).reshape(batch, -1)[:, :channels]

        def call() -> Array:
            pool()
            np.multiply(sums, count, out=sums)
            return sums

        return call
