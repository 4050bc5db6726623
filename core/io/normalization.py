"""How pixels become the numbers of a batch (MXNet's ``ImageNormalizeParam``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import FormatError, ShapeError
from ..ndarray import load
from ..types import Shape

__all__ = ["Normalization", "read_mean_image"]

Image = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Normalization:
    """``((pixel - mean) * contrast + illumination) * scale / std``, and mirroring.

    Attributes:
        mirror: mirror every image; rand_mirror: mirror each with probability 1/2.
        mean_r, mean_g, mean_b, mean_a: means of red (or grey), green, blue and alpha.
        mean_img: file of a mean image, used in place of these; ``ImageRecordIter`` writes it if it
            does not exist.
        std_r, std_g, std_b, std_a, scale: divisors and factor.
        max_random_contrast: contrast is random and differs from 1 by at most this.
        max_random_illumination: illumination is random and differs from 0 by at most this.
    """

    mirror: bool = False
    rand_mirror: bool = False
    mean_img: str = ""
    mean_r: float = 0.0
    mean_g: float = 0.0
    mean_b: float = 0.0
    mean_a: float = 0.0
    std_r: float = 1.0
    std_g: float = 1.0
    std_b: float = 1.0
    std_a: float = 1.0
    scale: float = 1.0
    max_random_contrast: float = 0.0
    max_random_illumination: float = 0.0

    def __call__(
        self,
        image: Image,
        random: np.random.RandomState,
        dtype: np.dtype[Any],
        mean_image: Image | None,
    ) -> Image:
        """Return (channels, height, width) of an image (height, width, channels) uint8.

        As in MXNet dtype uint8 only mirrors the image, and int8 subtracts the rounded mean and
        clips the result to its range.

        Args:
            image: the pixels.
            random: source of random numbers.
            dtype: of the result.
            mean_image: (channels, height, width), used in place of the channels' means.
        """
        is_mirrored = self.mirror or bool(self.rand_mirror and random.randint(2))
        planes = image.transpose(2, 0, 1)
        if dtype == np.int8:
            means = np.floor(self._mean(planes.shape[0], mean_image) + 0.5)
            planes = np.clip(planes - means, -128, 127)
        elif dtype != np.uint8:
            planes = self._scaled(planes.astype(np.float32), random, mean_image)
        planes = planes[..., ::-1] if is_mirrored else planes
        return np.ascontiguousarray(planes, dtype=dtype)

    def _scaled(
        self, planes: Image, random: np.random.RandomState, mean_image: Image | None
    ) -> Image:
        contrast = 1 + random.uniform(-self.max_random_contrast, self.max_random_contrast)
        light = random.uniform(-self.max_random_illumination, self.max_random_illumination)
        mean = self._mean(planes.shape[0], mean_image)
        std = _per_channel([self.std_r, self.std_g, self.std_b, self.std_a][: planes.shape[0]])
        factor = np.float32(contrast * self.scale) / std
        scaled: Image = (planes - mean) * factor + np.float32(light * self.scale) / std
        return scaled

    def _mean(self, channels: int, mean_image: Image | None) -> Image:
        if mean_image is not None:
            return mean_image
        return _per_channel([self.mean_r, self.mean_g, self.mean_b, self.mean_a][:channels])


def read_mean_image(path: str, shape: Shape) -> Image:
    """Return the mean image (channels, height, width) of a file that ``mx.nd.save`` wrote.

    Raises:
        FormatError: the file does not hold exactly one array. ShapeError: it has another shape.
    """
    loaded = load(path)
    arrays = list(loaded.values()) if isinstance(loaded, dict) else list(loaded)
    if len(arrays) != 1:
        raise FormatError(f"{path}: expected one array (the mean image), got {len(arrays)}")
    if arrays[0].shape != shape:
        raise ShapeError(
            f"{path}: the mean image has shape {arrays[0].shape}, data_shape is {shape}"
        )
    image: Image = arrays[0].asnumpy().astype(np.float32)
    return image


def _per_channel(numbers: list[float]) -> Image:
    return np.array(numbers, dtype=np.float32)[:, None, None]
