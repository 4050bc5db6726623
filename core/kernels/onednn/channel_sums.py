"""Sums over all positions of an image, for each channel of each sample, in any layout."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...types import Array, shape_size
from ..kernel import KernelResources
from .constants import Algorithm, Argument, Propagation
from .memory import MemoryDesc, any_layout
from .primitive import PostOperation, Primitive, launch, scratchpad_bytes

__all__ = ["ChannelSums", "channel_pixels", "scaled", "summing"]

_FLOAT32 = np.dtype("float32")
_BYTES = np.dtype("uint8")


class ChannelSums:
    """Sums by average pooling, because oneDNN generates reduction code for plain tensors only.

    Args:
        desc: describes the tensor, which has three axes or more.
        factor: factor of the sums.

    Raises:
        KernelUnavailable: oneDNN cannot pool in this layout.
    """

    def __init__(self, desc: MemoryDesc, factor: float = 1.0) -> None:
        self._primitive = summing(desc, shape_size(desc.dims[2:]) * factor)
        self.scratchpad_bytes = scratchpad_bytes(self._primitive)

    def bind(self, tensor: Array, out: Array, resources: KernelResources) -> Callable[[], None]:
        """Return a closure that sums for each channel, of each sample or over all samples.

        Args:
            tensor: the tensor to sum.
            out: (samples or 1, channels, 1, ...).
            resources: as for a kernel.
        """
        desc = self._primitive.desc(Argument.DST)
        pixels = resources.allocate((desc.nbytes,), _BYTES)
        pool = launch(self._primitive, {Argument.SRC: tensor, Argument.DST: pixels}, resources)
        sums, of_samples = channel_pixels(pixels, desc), out.reshape(out.shape[:2])
        is_of_each = len(sums) == len(of_samples)

        def call() -> None:
            pool()
            if is_of_each:
                np.copyto(of_samples, sums)
            else:
                np.sum(sums, axis=0, keepdims=True, out=of_samples)

        return call


def summing(desc: MemoryDesc, factor: float) -> Primitive:
    """Return the primitive that writes the means of an image's channels, times a factor, as an
    image of one pixel.

    Raises:
        KernelUnavailable: oneDNN cannot pool in this layout.
    """
    batch, channels, *space = desc.dims
    ones, zeros = (1,) * len(space), (0,) * len(space)
    return Primitive.of(
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
        post=scaled(factor),
    )


def scaled(factor: float) -> tuple[PostOperation, ...]:
    """Return the post-operation that multiplies by a factor; none for 1."""
    if factor == 1:
        return ()
    return (("eltwise", Algorithm.ELTWISE_LINEAR, float(factor), 0.0),)


def channel_pixels(pixels: Array, desc: MemoryDesc) -> Array:
    """Return images of one pixel as a matrix (batch, channels).

    In every layout the channels of a single pixel are contiguous, followed by padding.
    """
    batch, channels = desc.dims[:2]
    return pixels.view(_FLOAT32).reshape(batch, -1)[:, :channels]
