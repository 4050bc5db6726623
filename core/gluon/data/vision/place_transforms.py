"""Cropping, resizing, flipping and rotation. Sizes are one number or (width, height)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....base import numeric_types
from ....image import center_crop, imrotate, random_rotate, random_size_crop
from ....ndarray import NDArray
from ...base_block import Block
from ...hybrid_block import HybridBlock

__all__ = [
    "CenterCrop",
    "CropResize",
    "RandomFlipLeftRight",
    "RandomFlipTopBottom",
    "RandomResizedCrop",
    "RandomRotation",
    "Resize",
    "Rotate",
]

Size = int | Sequence[int]

_RATIOS = (3.0 / 4.0, 4.0 / 3.0)


class Resize(HybridBlock):
    """Resizes an image, or stacked images.

    Args:
        size: the new size.
        keep_ratio: a single number is the size of the shorter edge, otherwise of both edges.
        interpolation: see ``mx.image.imresize``.
    """

    def __init__(self, size: Size, keep_ratio: bool = False, interpolation: int = 1) -> None:
        super().__init__()
        self._size = size
        self._keep = keep_ratio
        self._interpolation = interpolation

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the resized image."""
        return F.image.resize(x, self._size, self._keep, self._interpolation)


class CenterCrop(Block):
    """Crops the center of an image; smaller images are enlarged to ``size``.

    Args:
        size: size of the result.
        interpolation: see ``mx.image.imresize``.
    """

    def __init__(self, size: Size, interpolation: int = 1) -> None:
        super().__init__()
        self._args = (_both_sides(size), interpolation)

    def forward(self, x: NDArray) -> NDArray:
        """Return the cropped part."""
        return center_crop(x, *self._args)[0]


class RandomResizedCrop(Block):
    """Crops a part of random area and aspect ratio, and resizes it.

    Args:
        size: size of the result.
        scale: smallest and largest fraction of the image's area.
        ratio: smallest and largest ratio of width to height.
        interpolation: see ``mx.image.imresize``.
    """

    def __init__(
        self,
        size: Size,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = _RATIOS,
        interpolation: int = 1,
    ) -> None:
        super().__init__()
        self._args = (_both_sides(size), scale, ratio, interpolation)

    def forward(self, x: NDArray) -> NDArray:
        """Return the resized part."""
        return random_size_crop(x, *self._args)[0]


class CropResize(HybridBlock):
    """Crops a part of an image, or of stacked images, and optionally resizes it.

    Args:
        x, y: left and top edge of the part.
        width, height: its size.
        size: size of the result, by default that of the part.
        interpolation: see ``mx.image.imresize``; linear by default.
    """

    def __init__(
        self,
        x: int,
        y: int,
        width: int,
        height: int,
        size: Size | None = None,
        interpolation: int | None = None,
    ) -> None:
        super().__init__()
        self._place = (x, y, width, height)
        self._size = size
        self._interpolation = 1 if interpolation is None else interpolation

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the cropped part."""
        part = F.image.crop(x, *self._place)
        if not self._size:
            return part
        return F.image.resize(part, self._size, False, self._interpolation)


class RandomFlipLeftRight(HybridBlock):
    """Flips an image left to right with probability 1/2."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the image."""
        return F.image.random_flip_left_right(x)


class RandomFlipTopBottom(HybridBlock):
    """Flips an image top to bottom with probability 1/2."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the image."""
        return F.image.random_flip_top_bottom(x)


class Rotate(Block):
    """Rotates tensors (channels, height, width) float32 around the center; also stacked ones.

    Args:
        rotation_degrees, zoom_in, zoom_out: as for ``mx.image.imrotate``.
    """

    def __init__(
        self, rotation_degrees: float, zoom_in: bool = False, zoom_out: bool = False
    ) -> None:
        super().__init__()
        self._args = (rotation_degrees, zoom_in, zoom_out)

    def forward(self, x: NDArray) -> NDArray:
        """Return the rotated tensor; raise TypeError unless it is float32."""
        _require_float32(x)
        return imrotate(x, *self._args)


class RandomRotation(Block):
    """Rotates tensors (channels, height, width) float32 by a random angle; also stacked ones.

    Args:
        angle_limits: smallest and largest angle in degrees.
        zoom_in, zoom_out: as for ``mx.image.imrotate``.
        rotate_with_proba: probability of any rotation.

    Raises:
        ValueError: limits are in the wrong order, or the probability is not between 0 and 1.
    """

    def __init__(
        self,
        angle_limits: Sequence[float],
        zoom_in: bool = False,
        zoom_out: bool = False,
        rotate_with_proba: float = 1.0,
    ) -> None:
        super().__init__()
        lower, upper = angle_limits
        if lower >= upper:
            raise ValueError(f"`angle_limits` must be an ordered tuple, got {tuple(angle_limits)}")
        if not 0 <= rotate_with_proba <= 1:
            raise ValueError(
                "Probability of rotating the image should be between 0 and 1, got "
                f"{rotate_with_proba}"
            )
        self._args = (angle_limits, zoom_in, zoom_out)
        self._rotate_with_proba = rotate_with_proba

    def forward(self, x: NDArray) -> NDArray:
        """Return the tensor; raise TypeError if it is to be rotated and is not float32."""
        if np.random.random() > self._rotate_with_proba:
            return x
        _require_float32(x)
        return random_rotate(x, *self._args)


def _both_sides(size: Size) -> Sequence[int]:
    return (size, size) if isinstance(size, numeric_types) else size


def _require_float32(x: NDArray) -> None:
    if x.dtype is not np.float32:
        raise TypeError(
            f"This transformation only supports float32, got {np.dtype(x.dtype)}. Consider "
            "calling it after ToTensor"
        )
