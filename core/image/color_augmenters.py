"""Color augmenters for floating-point RGB images.

Those that change an image in place return the same array.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from ..ndarray import NDArray, array, dot
from ..ndarray import sum as sum_of
from .augmenters import Augmenter, RandomOrderAug

__all__ = [
    "BrightnessJitterAug",
    "ColorJitterAug",
    "ColorNormalizeAug",
    "ContrastJitterAug",
    "HueJitterAug",
    "LightingAug",
    "RandomGrayAug",
    "SaturationJitterAug",
    "color_normalize",
]

_GREY = [[[0.299, 0.587, 0.114]]]  # luma of ITU-R BT.601, the Y of YIQ
_TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
_FROM_YIQ = np.array([[1.0, 0.956, 0.621], [1.0, -0.272, -0.647], [1.0, -1.107, 1.705]])


def color_normalize(src: NDArray, mean: Any, std: Any = None) -> NDArray:
    """Return ``(src - mean) / std``, computed in place; None leaves a step out."""
    if mean is not None:
        src -= mean
    if std is not None:
        src /= std
    return src


class BrightnessJitterAug(Augmenter):
    """Multiplies by a random factor from 1 - brightness to 1 + brightness."""

    def __init__(self, brightness: float) -> None:
        super().__init__(brightness=brightness)
        self.brightness = brightness

    def __call__(self, src: NDArray) -> NDArray:
        """Change the image in place and return it."""
        src *= _factor(self.brightness)
        return src


class ContrastJitterAug(Augmenter):
    """Moves pixels away from or towards the image's mean grey."""

    def __init__(self, contrast: float) -> None:
        super().__init__(contrast=contrast)
        self.contrast = contrast
        self.coef = array(_GREY)

    def __call__(self, src: NDArray) -> NDArray:
        """Change the image in place and return it."""
        alpha = _factor(self.contrast)
        grey = src * self.coef
        # `grey` has three weighted channels, whose sum is a pixel's grey: 3 / size is 1 / pixels.
        mean = (3.0 * (1.0 - alpha) / grey.size) * sum_of(grey)
        src *= alpha
        src += mean
        return src


class SaturationJitterAug(Augmenter):
    """Moves pixels away from or towards their own grey."""

    def __init__(self, saturation: float) -> None:
        super().__init__(saturation=saturation)
        self.saturation = saturation
        self.coef = array(_GREY)

    def __call__(self, src: NDArray) -> NDArray:
        """Change the image in place and return it."""
        alpha = _factor(self.saturation)
        grey = sum_of(src * self.coef, axis=2, keepdims=True) * (1.0 - alpha)
        src *= alpha
        src += grey
        return src


class HueJitterAug(Augmenter):
    """Rotates hues by up to half a turn times ``hue``, linearly in YIQ."""

    def __init__(self, hue: float) -> None:
        super().__init__(hue=hue)
        self.hue = hue

    def __call__(self, src: NDArray) -> NDArray:
        """Return an image with other hues."""
        angle = random.uniform(-self.hue, self.hue) * np.pi
        cosine, sine = np.cos(angle), np.sin(angle)
        turn = np.array([[1.0, 0.0, 0.0], [0.0, cosine, -sine], [0.0, sine, cosine]])
        turned: NDArray = dot(src, array((_FROM_YIQ @ turn @ _TO_YIQ).T))
        return turned


class ColorJitterAug(RandomOrderAug):
    """Changes brightness, contrast and saturation, as far as they are not 0, in any order."""

    def __init__(self, brightness: float, contrast: float, saturation: float) -> None:
        kinds = (
            (BrightnessJitterAug, brightness),
            (ContrastJitterAug, contrast),
            (SaturationJitterAug, saturation),
        )
        super().__init__([make(most) for make, most in kinds if most > 0])


class LightingAug(Augmenter):
    """Adds noise along the principal components of natural images' colors.

    Args:
        alphastd: standard deviation of the noise.
        eigval, eigvec: variances (3,) and components (3, 3) as columns.
    """

    def __init__(self, alphastd: float, eigval: Any, eigvec: Any) -> None:
        super().__init__(alphastd=alphastd, eigval=eigval, eigvec=eigvec)
        self.alphastd, self.eigval, self.eigvec = alphastd, eigval, eigvec

    def __call__(self, src: NDArray) -> NDArray:
        """Change the image in place and return it."""
        alpha = np.random.normal(0, self.alphastd, size=(3,))
        src += array(np.dot(self.eigvec * alpha, self.eigval))
        return src


class ColorNormalizeAug(Augmenter):
    """Subtracts each channel's mean and divides by its standard deviation; None skips a step."""

    def __init__(self, mean: Any, std: Any) -> None:
        super().__init__(mean=mean, std=std)
        self.mean = mean if mean is None or isinstance(mean, NDArray) else array(mean)
        self.std = std if std is None or isinstance(std, NDArray) else array(std)

    def __call__(self, src: NDArray) -> NDArray:
        """Change the image in place and return it."""
        return color_normalize(src, self.mean, self.std)


class RandomGrayAug(Augmenter):
    """Converts to grey (three equal channels) with a given probability."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p
        # Other than above these are about the weights of BT.709, as in MXNet.
        self.mat = array([[0.21, 0.21, 0.21], [0.72, 0.72, 0.72], [0.07, 0.07, 0.07]])

    def __call__(self, src: NDArray) -> NDArray:
        """Return the image, or a grey one."""
        return dot(src, self.mat) if random.random() < self.p else src


def _factor(most: float) -> float:
    return 1.0 + random.uniform(-most, most)
