"""Conversion from images to the tensors of networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....base import numeric_types
from ...hybrid_block import HybridBlock

__all__ = ["Cast", "Normalize", "ToTensor"]


class Cast(HybridBlock):
    """Converts an array to a dtype."""

    def __init__(self, dtype: Any = "float32") -> None:
        super().__init__()
        self._dtype = dtype

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the converted array."""
        return F.cast(x, dtype=self._dtype)


class ToTensor(HybridBlock):
    """Converts (height, width, channels) of 0 to 255 to (channels, height, width) float32 of 0 to
    1."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the tensor, or stacked tensors for stacked images."""
        return F.image.to_tensor(x)


class Normalize(HybridBlock):
    """``(x - mean) / std`` for each channel of (channels, height, width); also for stacked tensors.

    Args:
        mean, std: one number, or one for each channel.
    """

    def __init__(
        self, mean: float | Sequence[float] = 0.0, std: float | Sequence[float] = 1.0
    ) -> None:
        super().__init__()
        self._mean = mean if isinstance(mean, numeric_types) else tuple(mean)
        self._std = std if isinstance(std, numeric_types) else tuple(std)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the tensor."""
        return F.image.normalize(x, mean=self._mean, std=self._std)
